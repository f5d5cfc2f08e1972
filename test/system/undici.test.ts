/**
 * undici's EnvHttpProxyAgent, which Node's fetch also uses. It requests a tunnel for http:// URLs, too, so connect.ports
 * applies to port 80, and the error must name that key.
 */
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { EnvHttpProxyAgent, fetch } from 'undici'
import { needs } from '../kit/processes/command.js'
import { type Echo, makeCertificates, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'

t.test('undici', { skip: needs('openssl') || needsBuild() }, async t => {
  const certificates = await makeCertificates(t)
  const ca = await readFile(certificates.ca)
  const plain = await startOrigin(t)
  const secure = await startOrigin(t, certificates)
  const sluice = await startSluice(t, allowing(plain.port, secure.port))
  const agentFor = (proxyUrl: string) => {
    const dispatcher = new EnvHttpProxyAgent({
      httpProxy: proxyUrl,
      httpsProxy: proxyUrl,
      noProxy: '',
      requestTls: { ca },
    })
    t.teardown(() => dispatcher.destroy())
    return dispatcher
  }
  const dispatcher = agentFor(sluice.proxyUrl)

  for (const origin of [plain, secure]) {
    const scheme = new URL(origin.url).protocol
    await t.test(`posts by ${scheme}// through CONNECT`, async t => {
      const response = await fetch(`${origin.url}/a`, { dispatcher, method: 'POST', body: 'x=y' })
      t.match((await response.json()) as Echo, { method: 'POST', url: '/a', bytes: 3 })
      await sluice.logged({ event: 'decision', method: 'CONNECT', port: origin.port, decision: 'allow' })
    })
  }

  await t.test('a tunnel to port 80 is refused by default, with the name of the key', async t => {
    const strict = await startSluice(
      t,
      'version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }\n',
    )
    const refused = fetch('http://a.test/', { dispatcher: agentFor(strict.proxyUrl) })
    await t.rejects(refused, { cause: { cause: { message: /403/ } } })
    await strict.logged({ event: 'decision', method: 'CONNECT', host: 'a.test', port: 80, decision: 'deny' })

    const socket = connect(strict.proxyPort, '127.0.0.1')
    socket.write('CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n')
    const answer = await text(socket)
    t.match(answer, /^HTTP\/1\.1 403 Sluice: .*80/)
    t.match(answer, /\r\n\r\n[\s\S]*connect\.ports/)
  })
})
