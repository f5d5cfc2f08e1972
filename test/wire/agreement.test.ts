/** One policy for every form of request: CONNECT, http:// and `sluice explain` agree about the same target. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { runExplain } from '../../src/cli/explain.js'
import { dialled } from '../kit/fakes/dialled.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { runs } from '../kit/runs.js'

const ANSWERS: Readonly<Record<string, readonly string[]>> = {
  'a.test': ['93.184.216.34'],
  'b.a.test': ['10.1.2.3'],
  'c.test': ['93.184.216.34', '2606:2800:220:1::1'],
  'd.test': ['1.1.1.1', '169.254.169.254'],
  db: ['93.184.216.34'],
}

const NAMES = Object.keys(ANSWERS)
const LITERALS = ['93.184.216.34', '10.1.2.3', '[2606:2800:220:1::1]', '[::ffff:10.1.2.3]', '169.254.169.254']
const PORTS = [80, 443, 8443]

const list = <T>(items: fc.Arbitrary<T>, minLength = 0) => fc.array(items, { minLength, maxLength: 3 })
const host: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom('*', '*.test', '0.0.0.0/0', '::/0'),
  fc.constantFrom('*.a.test', '10.0.0.0/8', ...NAMES, ...LITERALS),
)
const block: fc.Arbitrary<string> = fc.constantFrom(
  ...['10.0.0.0/8', '10.1.2.3', '169.254.0.0/16', '169.254.169.254', '93.184.216.34', '::/0'],
)
const ports = fc.oneof(
  fc.constant<(number | string)[]>(['any']),
  list(fc.constantFrom<number | string>(...PORTS, '400-500'), 1),
)
/** Mostly empty, so that something remains allowed. */
const denied = (items: fc.Arbitrary<string>) => fc.oneof(fc.constant<string[]>([]), list(items))

const rule = fc.record(
  {
    hosts: list(host, 1),
    ports,
    methods: list(fc.constantFrom('GET', 'POST'), 1),
    addresses: list(block, 1),
    addresses_only: fc.constantFrom(false, false, true),
  },
  { requiredKeys: ['hosts', 'addresses'] },
)

const config = fc.record({
  ports,
  rules: fc.dictionary(fc.constantFrom('one', 'two', 'three'), rule, { minKeys: 1, maxKeys: 3 }),
  deny: fc.record({ hosts: denied(host), addresses: denied(block) }),
})
type Config = typeof config extends fc.Arbitrary<infer T> ? T : never

const target = fc.tuple(fc.constantFrom(...NAMES, ...LITERALS, 'localhost'), fc.constantFrom(...PORTS))

const yamlOf = ({ ports, rules, deny }: Config): string =>
  Object.entries({ connect: { ports }, forward: { ports }, rules, deny })
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join('')

/** An allowed target cannot be connected to, which results in 502. */
const refusing = () =>
  dialled(() => {
    const socket = new Socket()
    process.nextTick(() => socket.destroy(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })))
    return socket
  })

const lookup = async (name: string): Promise<readonly string[]> => ANSWERS[name] ?? []

async function allowed(t: Test, proxy: TestProxy, request: string): Promise<boolean> {
  const client = await rawClient(t, proxy.port)
  client.write(request)
  const { status } = await readResponse(client)
  client.destroy()
  if (status === 502 || status === 403) return status === 502
  throw new Error(`${status} for ${request}`)
}

const overConnect = (at: string) => `CONNECT ${at} HTTP/1.1\r\nHost: ${at}\r\n\r\n`
const overHttp = (at: string) => `GET http://${at}/ HTTP/1.1\r\nHost: ${at}\r\n\r\n`

async function explained(file: string, url: string): Promise<boolean> {
  const io = { stdout: () => {}, stderr: () => {}, color: false }
  const code = await runExplain(
    { urls: [url], config: file, client: '127.0.0.1', json: false },
    { io, command: 'sluice', color: false, lookup },
  )
  if (code === 0 || code === 1) return code === 0
  throw new Error(`exit code ${code} for ${url}`)
}

t.test('CONNECT, http:// and explain agree, and an additional denial never allows more', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const file = join(folder, 'sluice.yaml')
  let allowances = 0
  await fc.assert(
    fc.asyncProperty(
      config,
      fc.array(target, { minLength: 6, maxLength: 6 }),
      fc.oneof(host, block),
      async (config, targets, further) => {
        const { deny } = config
        const cidr = further.includes('/')
        const stricter = cidr
          ? { ...config, deny: { ...deny, addresses: [...deny.addresses, further] } }
          : { ...config, deny: { ...deny, hosts: [...deny.hosts, further] } }
        await writeFile(file, `version: 1\n${yamlOf(config)}`)
        const proxy = await testProxy(t, yamlOf(config), { connector: refusing().connector, lookup })
        const strict = await testProxy(t, yamlOf(stricter), { connector: refusing().connector, lookup })
        for (const [name, port] of targets) {
          const at = `${name}:${port}`
          const tunnel = await allowed(t, proxy, overConnect(at))
          const forward = await allowed(t, proxy, overHttp(at))
          allowances += Number(tunnel) + Number(forward)
          const looksIntoMethods = Object.values(config.rules).some(({ methods }) => methods !== undefined)
          // A rule with methods allows GET and refuses tunnels; that is the only difference allowed.
          if (looksIntoMethods ? tunnel && !forward : tunnel !== forward) return false
          if ((await explained(file, at)) !== tunnel) return false
          if ((await explained(file, `http://${at}/`)) !== forward) return false
          if (!tunnel && (await allowed(t, strict, overConnect(at)))) return false
          if (!forward && (await allowed(t, strict, overHttp(at)))) return false
        }
        await Promise.all([proxy.drain(), strict.drain()])
        return true
      },
    ),
    { numRuns: runs(60, 30) },
  )
  t.ok(allowances > runs(20, 1), `${allowances} requests were allowed: the property is not an empty one`)
})
