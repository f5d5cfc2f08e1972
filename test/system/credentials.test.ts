/** Clients with a name and a password: curl with its different options, and git with both in the URL of the proxy. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hashSync } from 'bcryptjs'
import t, { type Test } from 'tap'
import { needs, proxyVariables, run, temporaryDirectory } from '../kit/processes/command.js'
import { gitBackend } from './git-origin.js'
import { makeCertificates, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'

const USER = 'ann'
const PASSWORD = 'a:b c/ü'
const WITH_CREDENTIALS = `${USER}:${encodeURIComponent(PASSWORD)}@`

async function startGuarded(t: Test, ...ports: number[]) {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'users')
  await writeFile(file, `${USER}:${hashSync(PASSWORD, 5)}\n`)
  const clients = `clients:\n  - { name: team, basic: { htpasswd_file: "${file}" } }\n`
  const sluice = await startSluice(t, allowing(...ports) + clients)
  return { sluice, directory, urlWithCredentials: sluice.proxyUrl.replace('//', `//${WITH_CREDENTIALS}`) }
}

t.test('curl', { skip: needs('curl', 'openssl') || needsBuild() }, async t => {
  const certificates = await makeCertificates(t)
  const plain = await startOrigin(t)
  const secure = await startOrigin(t, certificates)
  const { sluice, directory, urlWithCredentials } = await startGuarded(t, plain.port, secure.port)
  const curl = (proxyUrl: string, ...args: string[]) =>
    run('curl', ['--silent', '--show-error', '--cacert', certificates.ca, ...args], {
      env: proxyVariables(proxyUrl, directory),
    })
  const report = ['--output', join(directory, 'body'), '--write-out']
  const userPass = `${USER}:${PASSWORD}`

  for (const { url } of [plain, secure]) {
    const scheme = new URL(url).protocol
    const codes = ['%{http_code} %{num_connects}', url]
    for (const [name, proxyUrl, ...args] of [
      ['-U', sluice.proxyUrl, '-U', userPass],
      ['--proxy-basic', sluice.proxyUrl, '--proxy-basic', '-U', userPass],
      ['the URL of the proxy', urlWithCredentials],
    ] as const) {
      await t.test(`${name} lets it in (${scheme}//)`, async t => {
        const { stdout, stderr } = await curl(proxyUrl, ...args, ...report, ...codes)
        t.equal(stdout, '200 1', stderr)
      })
    }

    await t.test(
      `--proxy-anyauth waits for the challenge and stays on its connection (${scheme}//)`,
      async t => {
        const { stdout, stderr } = await curl(
          sluice.proxyUrl,
          '--proxy-anyauth',
          '-U',
          userPass,
          '--verbose',
          ...report,
          ...codes,
        )
        t.equal(stdout, '200 1', stderr)
        t.match(stderr, /< HTTP\/1\.1 407 Sluice: proxy credentials are missing/)
        t.match(stderr, /< Proxy-Authenticate: Basic realm="Sluice", charset="UTF-8"/)
      },
    )

    await t.test(`missing and wrong credentials are refused (${scheme}//)`, async t => {
      const status = scheme === 'https:' ? '%{http_connect}' : '%{http_code}'
      const without = await curl(sluice.proxyUrl, ...report, status, url)
      t.equal(without.stdout, '407')
      const wrong = await curl(sluice.proxyUrl, '-U', 'ann:other', '--verbose', ...report, status, url)
      t.equal(wrong.stdout, '407')
      t.match(wrong.stderr, /< HTTP\/1\.1 407 Sluice: proxy credentials are wrong/)
    })
  }
  await sluice.logged({ event: 'decision', decision: 'deny', reason: 'credentials_wrong' })
  await sluice.logged({ event: 'decision', decision: 'allow', client: 'team', method: 'CONNECT' })
})

t.test('git', { skip: needs('git', 'openssl') || needsBuild() }, async t => {
  const certificates = await makeCertificates(t)
  const root = await temporaryDirectory(t)
  const secure = await startOrigin(t, certificates, gitBackend(root))
  const { sluice, directory, urlWithCredentials } = await startGuarded(t, secure.port)
  await run('git', ['init', '--quiet', '--bare', 'shared.git'], { cwd: root })
  const clone = (proxyUrl: string, name: string) =>
    run('git', ['clone', '--quiet', `${secure.url}/shared.git`, name], {
      cwd: directory,
      env: {
        ...proxyVariables(proxyUrl, directory),
        GIT_SSL_CAINFO: certificates.ca,
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_TERMINAL_PROMPT: '0',
      },
    })
  t.equal((await clone(urlWithCredentials, 'first')).code, 0)
  await sluice.logged({ event: 'decision', decision: 'deny', reason: 'credentials_missing' })
  await sluice.logged({ event: 'decision', decision: 'allow', client: 'team', method: 'CONNECT' })
  const { code, stderr } = await clone(sluice.proxyUrl, 'second')
  t.equal(code, 128)
  t.match(stderr, /407|Proxy/)
})
