/** curl with TLS to the proxy: with the authority of the proxy's certificate, and with a client certificate. */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Authority } from '../kit/peers/authority.js'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { type Echo, sha256, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'

const skip = needs('curl', 'openssl') || needsBuild()

async function start(t: Test) {
  const directory = await temporaryDirectory(t)
  const ca = Authority.make(directory)
  const { cert, key } = ca.issue({ san: 'IP:127.0.0.1' })
  const certificates = { ca: ca.certFile, cert: Buffer.from(cert), key: Buffer.from(key) }
  const [plain, secure] = [await startOrigin(t), await startOrigin(t, certificates)]
  const own = ca.issue({ san: 'DNS:localhost' })
  const yaml = allowing(plain.port, secure.port).replace(
    'admin: "127.0.0.1:0"',
    `$&, tls: { address: "127.0.0.1:0", cert: ${own.certFile}, key: ${own.keyFile}, client_ca: ${ca.certFile} }`,
  )
  const sluice = await startSluice(t, yaml)
  const { tls } = await sluice.logged({ event: 'listening' })
  const proxy = `https://localhost:${new URL(`https://${tls}`).port}`
  const curl = (args: string[], input?: Buffer) =>
    run('curl', ['--silent', '--show-error', '--cacert', ca.certFile, '--proxy', proxy, ...args], {
      env: { HOME: directory },
      ...(input === undefined ? {} : { input }),
    })
  return { ca, plain, secure, sluice, curl, directory, trust: ['--proxy-cacert', ca.certFile] }
}

t.test('curl reaches origins through TLS to the proxy', { skip }, async t => {
  const { ca, plain, secure, sluice, curl, directory, trust } = await start(t)

  for (const origin of [plain, secure]) {
    const scheme = new URL(origin.url).protocol
    await t.test(`requests, one after another on one connection (${scheme}//)`, async t => {
      const { code, stdout, stderr } = await curl([
        ...trust,
        '--verbose',
        `${origin.url}/a`,
        `${origin.url}/b`,
      ])
      t.equal(code, 0, stderr)
      t.match(stdout, /"url":"\/a".*"url":"\/b"/)
      t.match(stderr, /[Rr]e-?using existing/)
    })

    await t.test(`uploads and downloads arrive complete (${scheme}//)`, async t => {
      const content = randomBytes(3_000_001)
      const up = await curl([...trust, '--upload-file', '-', `${origin.url}/put`], content)
      t.equal(up.code, 0, up.stderr)
      t.match(JSON.parse(up.stdout), { method: 'PUT', bytes: content.length, sha256: sha256(content) })
      const size = 30_000_000
      const file = join(directory, 'download')
      const down = await curl([...trust, '--output', file, `${origin.url}/bytes/${size}`])
      t.equal(down.code, 0, down.stderr)
      t.equal(sha256(await readFile(file)), sha256(Buffer.alloc(size, 'sluice ')))
    })
  }

  await t.test('with a client certificate, if that is required', async t => {
    const { certFile, keyFile } = ca.issue({ subject: '/CN=ci' })
    const own = ['--proxy-cert', certFile, '--proxy-key', keyFile]
    const { code, stdout, stderr } = await curl([...trust, ...own, '--verbose', `${secure.url}/a`])
    t.equal(code, 0, stderr)
    t.equal((JSON.parse(stdout) as Echo).url, '/a')
    t.match(stderr, /TLS handshake, Request CERT/)
  })

  await t.test('not through a proxy whose certificate it does not trust: exit code 60', async t => {
    const { code } = await curl([`${plain.url}/a`])
    t.equal(code, 60)
    // curl closes after its alert, and the reset that this causes may arrive first.
    t.match(await sluice.logged({ event: 'tls_client_error' }), {
      error: /^(?:ERR_SSL_.*ALERT_UNKNOWN_CA|ECONNRESET)$/,
    })
  })
})
