/** tinyproxy as the parent, with and without credentials. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freePort } from '../kit/peers/free-port.js'
import { needs, proxyVariables, run, temporaryDirectory } from '../kit/processes/command.js'
import { type Echo, makeCertificates, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'

/** Whether something listens on the port; tinyproxy prints nothing when it is ready, so this is polled. */
async function listens(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port })
  const stands = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return stands
}

/** @returns the port of tinyproxy, once it listens */
async function startTinyproxy(t: Test, lines: string): Promise<number> {
  const file = join(await temporaryDirectory(t), 'tinyproxy.conf')
  const port = await freePort()
  await writeFile(
    file,
    `Port ${port}\nListen 127.0.0.1\nTimeout 30\nMaxClients 20\nViaProxyName "tiny"\n${lines}`,
  )
  const child = spawn('tinyproxy', ['-d', '-c', file], { stdio: 'ignore' })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const listening = () => {
    if (child.exitCode !== null) throw new Error('tinyproxy has ended')
    return listens(port)
  }
  await until('tinyproxy to listen', listening, { everyMs: OTHER_PROCESS_MS })
  return port
}

t.test('behind tinyproxy', { skip: needs('tinyproxy', 'curl', 'openssl') || needsBuild() }, async t => {
  const certificates = await makeCertificates(t)
  const plain = await startOrigin(t)
  const secure = await startOrigin(t, certificates)
  const folder = await temporaryDirectory(t)
  await writeFile(join(folder, 'pass'), 'me:secret\n', { mode: 0o600 })
  const ports = `ConnectPort ${secure.port}\n`
  const open = await startTinyproxy(t, ports)
  const closed = await startTinyproxy(t, `${ports}BasicAuth me secret\n`)
  const curl = async (proxyUrl: string, url: string) => {
    const env = proxyVariables(proxyUrl, folder)
    return await run('curl', ['-sS', '--cacert', certificates.ca, '-w', '\n%{http_code}', url], { env })
  }
  for (const [name, port, keys] of [
    ['without credentials', open, ''],
    ['with credentials', closed, `, basic_file: "${folder}/pass"`],
  ] as const) {
    await t.test(name, async t => {
      const url = `http://127.0.0.1:${port}`
      const parent = `{ url: "${url}"${keys} }`
      const sluice = await startSluice(t, `${allowing(plain.port, secure.port)}parent: ${parent}\n`)
      const forwarded = await curl(sluice.proxyUrl, `${plain.url}/a?b`)
      t.match(forwarded, { code: 0, stdout: /\n200$/ })
      const { url: path, headers } = JSON.parse(forwarded.stdout.split('\n')[0] ?? '') as Echo
      t.equal(path, '/a?b')
      t.match(headers['via'], /^1\.1 sluice-\w+, 1\.1 tiny/)
      t.notOk('proxy-authorization' in headers)
      const large = await curl(sluice.proxyUrl, `${secure.url}/bytes/1000000`)
      t.match(large, { code: 0, stdout: /\n200$/ })
      t.equal(large.stdout.length, 1_000_004)
      await sluice.logged({ event: 'close', kind: 'connect', status: 200, parent: url })
    })
  }

  await t.test('its refusals are 502, and say that they come from tinyproxy', async t => {
    const sluice = await startSluice(
      t,
      `${allowing(plain.port, secure.port)}parent: { url: "http://127.0.0.1:${closed}" }\n`,
    )
    t.match(await curl(sluice.proxyUrl, `${plain.url}/`), { stdout: /parent\.basic_file[\s\S]*\n502$/ })
    t.match(await curl(sluice.proxyUrl, `${secure.url}/`), { code: 56, stderr: /502/ })
  })
})
