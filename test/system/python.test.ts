/**
 * Python's requests with the proxy. Up to Python 3.11, http.client requests a tunnel with `CONNECT host:port HTTP/1.0` and
 * no Host field, which HTTP/1.0 allows (RFC 9112 §3.2).
 */
import t from 'tap'
import { needs, proxyVariables, run, temporaryDirectory } from '../kit/processes/command.js'
import { type Echo, makeCertificates, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'

const GET = `
import requests, sys
try:
    print(requests.get(sys.argv[1], verify=sys.argv[2], timeout=20).text)
except requests.exceptions.ProxyError as error:
    sys.exit(str(error))
`
const POST = `
import requests, sys
def chunks():
    for _ in range(100): yield b'x' * 1000
print(requests.post(sys.argv[1], data=chunks(), verify=sys.argv[2], timeout=20).text)
`

/** The first interpreter with the package requests: distributions install it for their own, which may not be the first. */
async function interpreter(): Promise<string | undefined> {
  for (const python of ['python3', '/usr/bin/python3']) {
    const found = await run('sh', ['-c', `${python} -c 'import requests, sys; print(sys.executable)'`], {
      env: { HOME: process.env['HOME'] ?? '/' },
    })
    if (found.code === 0) return found.stdout.trim()
  }
  return undefined
}

const python = await interpreter()
const missing = python === undefined && process.env['CI'] !== 'true' ? 'Python has no requests' : false

t.test('Python requests', { skip: missing || needs('openssl') || needsBuild() }, async t => {
  const certificates = await makeCertificates(t)
  const plain = await startOrigin(t)
  const secure = await startOrigin(t, certificates)
  const sluice = await startSluice(t, allowing(plain.port, secure.port))
  const env = proxyVariables(sluice.proxyUrl, await temporaryDirectory(t))
  const execute = (script: string, url: string) =>
    run(python ?? 'python3', ['-c', script, url, certificates.ca], { env })

  for (const origin of [plain, secure]) {
    const scheme = new URL(origin.url).protocol
    await t.test(`gets by ${scheme}//`, async t => {
      const { code, stdout, stderr } = await execute(GET, `${origin.url}/a`)
      t.equal(code, 0, stderr)
      t.match(JSON.parse(stdout) as Echo, { method: 'GET', url: '/a' })
    })

    await t.test(`posts chunked content by ${scheme}//`, async t => {
      const { code, stdout, stderr } = await execute(POST, `${origin.url}/a`)
      t.equal(code, 0, stderr)
      t.match(JSON.parse(stdout) as Echo, { method: 'POST', bytes: 100_000 })
    })
  }

  await t.test('shows the reason of a refused CONNECT, but not its body', async t => {
    const { code, stderr } = await execute(GET, 'https://a.test/')
    t.equal(code, 1)
    t.match(stderr, /403 Sluice: .*a\.test:443/)
  })
})
