/** curl behind the proxy, by http:// and through CONNECT, allowed and refused. */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needs, proxyVariables, run, temporaryDirectory } from '../kit/processes/command.js'
import { type Echo, makeCertificates, sha256, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'

const skip = needs('curl', 'openssl') || needsBuild()

async function start(t: Test) {
  const certificates = await makeCertificates(t)
  const plain = await startOrigin(t)
  const secure = await startOrigin(t, certificates)
  const sluice = await startSluice(t, allowing(plain.port, secure.port))
  const directory = await temporaryDirectory(t)
  const env = proxyVariables(sluice.proxyUrl, directory)
  const curl = (args: string[], input?: Buffer) =>
    run('curl', ['--silent', '--show-error', '--cacert', certificates.ca, ...args], {
      env,
      ...(input === undefined ? {} : { input }),
    })
  return { plain, secure, sluice, curl, directory }
}

t.test('curl can reach what a rule allows', { skip }, async t => {
  const { plain, secure, sluice, curl, directory } = await start(t)

  await t.test('by http://, with Via and without the fields for the proxy (RFC 9110 §7.6.3)', async t => {
    const { code, stdout } = await curl([`${plain.url}/a?b=c`])
    t.equal(code, 0)
    const { method, url, headers } = JSON.parse(stdout) as Echo
    t.match(
      { method, url, host: headers['host'] },
      { method: 'GET', url: '/a?b=c', host: `127.0.0.1:${plain.port}` },
    )
    t.match(headers['via'], /^1\.1 sluice-/)
    t.notOk(headers['proxy-connection'])
  })

  await t.test('by https:// through CONNECT, without added fields (RFC 9110 §9.3.6)', async t => {
    const { code, stdout } = await curl([`${secure.url}/a`])
    t.equal(code, 0)
    const { url, headers } = JSON.parse(stdout) as Echo
    t.equal(url, '/a')
    t.notOk(headers['via'])
    const line = await sluice.logged({ event: 'decision', method: 'CONNECT', decision: 'allow' })
    t.match(line, { host: '127.0.0.1', port: secure.port, rule: 'local' })
  })

  await t.test('by http:// in a tunnel (--proxytunnel)', async t => {
    const { stdout } = await curl(['--proxytunnel', `${plain.url}/`])
    t.notOk((JSON.parse(stdout) as Echo).headers['via'])
  })

  for (const origin of [plain, secure]) {
    const scheme = new URL(origin.url).protocol
    await t.test(`uploads of unknown length arrive complete (${scheme}//)`, async t => {
      const content = randomBytes(3_000_001)
      const { code, stdout, stderr } = await curl(['--upload-file', '-', `${origin.url}/put`], content)
      t.equal(code, 0, stderr)
      t.match(JSON.parse(stdout), { method: 'PUT', bytes: content.length, sha256: sha256(content) })
    })

    await t.test(
      `Expect: 100-continue gets 100, without waiting for curl's timeout (${scheme}//, RFC 9110 §10.1.1)`,
      async t => {
        const args = ['--header', 'Expect: 100-continue', '--expect100-timeout', '3600', '--data', 'x=y']
        const { code, stdout } = await curl([...args, `${origin.url}/post`])
        t.equal(code, 0)
        t.match(JSON.parse(stdout), { method: 'POST', bytes: 3 })
      },
    )

    await t.test(`large downloads arrive complete (${scheme}//)`, async t => {
      const size = 30_000_000
      const file = join(directory, 'download')
      const { code } = await curl(['--output', file, `${origin.url}/bytes/${size}`])
      t.equal(code, 0)
      t.equal(sha256(await readFile(file)), sha256(Buffer.alloc(size, 'sluice ')))
    })

    await t.test(`HEAD gets the fields and no content (${scheme}//, RFC 9110 §9.3.2)`, async t => {
      const { code, stdout } = await curl(['--head', `${origin.url}/bytes/5`])
      t.equal(code, 0)
      t.match(stdout, /HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\n$/)
    })
  }
})

t.test('curl shows what is refused', { skip }, async t => {
  const { curl, sluice, plain } = await start(t)

  await t.test('a refused CONNECT: exit code 56, the status and the reason', async t => {
    const { code, stdout, stderr } = await curl([
      '--verbose',
      '--write-out',
      '%{http_connect}',
      'https://a.test/',
    ])
    t.equal(code, 56)
    t.equal(stdout, '403')
    t.match(stderr, /CONNECT tunnel failed, response 403/)
    t.match(stderr, /< HTTP\/1\.1 403 Sluice: .*a\.test:443/)
    await sluice.logged({ event: 'decision', host: 'a.test', decision: 'deny' })
  })

  await t.test('a refused http:// request: 403 and a body that names the host', async t => {
    const { code, stdout } = await curl(['--write-out', '%{http_code}', 'http://a.test/'])
    t.equal(code, 0)
    t.match(stdout, /a\.test[\s\S]*403$/)
  })

  await t.test('an http:// origin that does not respond: 502', async t => {
    const closed = await startSluice(t, allowing(1, plain.port))
    const { stdout } = await curl([
      '--proxy',
      closed.proxyUrl,
      '--write-out',
      '%{http_code}',
      'http://127.0.0.1:1/',
    ])
    t.match(stdout, /502$/)
  })
})
