import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { createPolicy } from '../../src/listener/create-policy.js'

t.test('a policy has the listeners of its configuration, unless others were bound', async t => {
  const { config } = parseConfig('version: 1\nlisten: { proxy: ["127.0.0.1:443"] }\nrules: {}\n')
  const vet = (policy: ReturnType<typeof createPolicy>) =>
    policy.vetConfigured('a', { kind: 'ipv4', name: '127.0.0.1' }, 443, ['127.0.0.1'])
  t.match(vet(createPolicy(config)), { kind: 'deny', reason: 'own_address' })
  const elsewhere = { proxy: [{ host: '127.0.0.1', port: 1 }], tls: undefined, admin: undefined }
  t.notMatch(vet(createPolicy(config, elsewhere)), { kind: 'deny' })
})
