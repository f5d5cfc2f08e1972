/** Tunnels that have to begin with TLS for their host, with the test at both of their ends. */
import type { Test } from 'tap'
import type { ProxyEnvironment } from '../../../src/index.js'
import { ESTABLISHED, type Tunnel } from './open-tunnel.js'
import { rawOrigin } from '../peers/raw-origin.js'
import { rawClient } from '../peers/raw-peer.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from './test-proxy.js'

/** A drain that is through before this has run found nothing left open. */
export const VERIFYING = `${LOOPBACK_RULES}connect: { sni: verify }\nshutdown: { drain: 1h }\n`

/** Of TLS: fatal, unrecognized_name (RFC 6066 §3). */
export const ALERT = '\x15\x03\x03\x00\x02\x02\x70'

export interface VerifiedTunnels {
  readonly proxy: TestProxy
  /** @param behind sent along with the CONNECT */
  open(host?: string, behind?: string | Uint8Array): Promise<Tunnel>
}

/** A proxy with these settings, to which every name is on loopback, and tunnels through it. */
export async function verifiedTunnels(
  t: Test,
  yaml = VERIFYING,
  environment: Partial<ProxyEnvironment> = {},
): Promise<VerifiedTunnels> {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, yaml, { lookup: async () => ['127.0.0.1'], ...environment })
  const open = async (host = 'a.test', behind: string | Uint8Array = ''): Promise<Tunnel> => {
    const client = await rawClient(t, proxy.port)
    const head = Buffer.from(`CONNECT ${host}:${origin.port} HTTP/1.1\r\nHost: h\r\n\r\n`)
    client.write(Buffer.concat([head, Buffer.from(behind)]))
    const upstream = await origin.accept()
    const answer = await client.until('\r\n\r\n')
    if (answer !== ESTABLISHED) throw new Error(`no tunnel: ${answer}`)
    return { client, upstream }
  }
  return { proxy, open }
}

/** Checks that a tunnel was cut: what the client was told, and that the origin was told nothing. */
export async function checkCut(t: Test, { client, upstream }: Tunnel, told: string): Promise<void> {
  t.equal(await client.untilEnd(), told)
  t.equal(await client.outcome(), 'end')
  client.end()
  t.equal(await upstream.untilEnd(), '', 'the origin saw no byte')
  upstream.end()
}

/** Ends a tunnel that is open. */
export function close({ client, upstream }: Tunnel): void {
  client.destroy()
  upstream.destroy()
}
