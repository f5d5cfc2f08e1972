/** wget behind the proxy. */
import t from 'tap'
import { needs, proxyVariables, run, temporaryDirectory } from '../kit/processes/command.js'
import { type Echo, makeCertificates, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'

t.test('wget', { skip: needs('wget', 'openssl') || needsBuild() }, async t => {
  const certificates = await makeCertificates(t)
  const plain = await startOrigin(t)
  const secure = await startOrigin(t, certificates)
  const sluice = await startSluice(t, allowing(plain.port, secure.port))
  const env = proxyVariables(sluice.proxyUrl, await temporaryDirectory(t))
  const wget = (url: string) =>
    run('wget', ['--tries=1', '--ca-certificate', certificates.ca, '--output-document=-', url], { env })

  await t.test('fetches by http://', async t => {
    const { code, stdout } = await wget(`${plain.url}/a`)
    t.equal(code, 0)
    const { url, headers } = JSON.parse(stdout) as Echo
    t.equal(url, '/a')
    t.match(headers['via'], /^1\.1 sluice-/)
  })

  await t.test('fetches by https:// through CONNECT', async t => {
    const { code, stdout } = await wget(`${secure.url}/a`)
    t.equal(code, 0)
    t.notOk((JSON.parse(stdout) as Echo).headers['via'])
  })

  await t.test('prints the reason of a refused http:// request', async t => {
    const { code, stderr } = await wget('http://a.test/')
    t.equal(code, 8)
    t.match(stderr, /403: Sluice: .*a\.test:80/)
  })

  await t.test('prints the reason of a refused CONNECT', async t => {
    const { code, stderr } = await wget('https://a.test/')
    t.not(code, 0)
    t.match(stderr, /403.*Sluice: .*a\.test:443|Proxy tunneling failed: Sluice/)
  })
})
