import { createServer } from 'node:net'
import { platform } from 'node:os'
import t, { type Test } from 'tap'
import { parseConfig } from '../../src/index.js'
import { bindServer } from '../../src/listener/bind.js'
import { canReusePort, probePorts } from '../../src/supervisor/port-sharing.js'
import { NO_REUSE_PORT } from '../kit/processes/fleet.js'
import { freePort } from '../kit/peers/free-port.js'
import { socketPath } from '../kit/peers/unix-socket.js'

t.test('a port is shared on Linux, by Node from 22.12 and from 23.1 on', async t => {
  const table: readonly [string, string, boolean][] = [
    ['linux', '20.19.5', false],
    ['linux', '21.99.0', false],
    ['linux', '22.11.0', false],
    ['linux', '22.12.0', true],
    ['linux', '22.21.1', true],
    ['linux', '23.0.0', false],
    ['linux', '23.1.0', true],
    ['linux', '24.0.0', true],
    ['linux', '26.10.0', true],
    ['darwin', '26.10.0', false],
    ['freebsd', '26.10.0', false],
    ['win32', '26.10.0', false],
  ]
  for (const [system, version, expected] of table) {
    t.equal(canReusePort(system, version), expected, `${system} ${version}`)
  }
  t.equal(canReusePort(platform(), process.versions.node), NO_REUSE_PORT === false)
})

const listen = (yaml: string) => parseConfig(`version: 1\nlisten: ${yaml}\n`).config.listen

async function taken(t: Test, reusePort: boolean) {
  const server = createServer()
  const port = await freePort()
  await bindServer(server, { host: '127.0.0.1', port }, { reusePort })
  t.teardown(() => server.close())
  return { port, free: () => new Promise(resolve => server.close(resolve)) }
}

t.test('a port in use is in use, shared or not, and a free one is left free', async t => {
  for (const reusePort of NO_REUSE_PORT === false ? [false, true] : [false]) {
    const { port, free } = await taken(t, reusePort)
    const addresses = listen(`{ proxy: ["127.0.0.1:0", "127.0.0.1:${port}"] }`)
    await t.rejects(probePorts(addresses), { code: 'EADDRINUSE', message: new RegExp(` 127.0.0.1:${port}$`) })
    await free()
    await probePorts(addresses)
    await probePorts(addresses)
  }
})

t.test('an address that conflicts with another is in use', async t => {
  const port = await freePort()
  const conflicting = listen(`{ proxy: ["127.0.0.1:${port}", "0.0.0.0:${port}"] }`)
  await t.rejects(probePorts(conflicting), { code: 'EADDRINUSE', message: new RegExp(` 0.0.0.0:${port}$`) })
  await probePorts(listen(`{ proxy: ["127.0.0.1:${port}"] }`))
})

t.test('addresses other than TCP are not bound', async t => {
  const path = await socketPath(t)
  await probePorts(listen(`{ proxy: ["unix:${path}", "systemd"] }`))
})
