import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { Authorities } from '../../src/tls/authorities.js'
import { Clients } from '../../src/clients/identify.js'
import { parseConfig } from '../../src/config/load.js'
import { createPolicy } from '../../src/pipeline/create-policy.js'
import { parseRequestTarget } from '../../src/http/request-target.js'
import { recheck, type RecheckedTunnel, type RecheckOptions } from '../../src/pipeline/recheck.js'
import type { OriginRoute } from '../../src/origin/origin.js'
import type { Parents } from '../../src/upstream/parents.js'
import { wideQueue } from '../kit/fakes/wide-queue.js'

const NOBODY = { waitSeconds: () => 0, begin: () => () => {} }

function options(yaml: string, routes: readonly OriginRoute[] = []) {
  const loaded = parseConfig(`version: 1\n${yaml}\n`)
  const { config } = loaded
  const clients = new Clients(config.clients, {
    htpasswd: new Map(),
    passwords: { verify: async () => false },
    queue: wideQueue(),
    attempts: NOBODY,
    key: Buffer.alloc(32),
    limits: config.limits,
  })
  const authorities = new Authorities({}, 0)
  return { clients, authorities, policy: createPolicy(loaded), routes, parents: undefined }
}

function tunnel(method: string, target: string, address = '1.1.1.1', over: object = {}): RecheckedTunnel {
  const exchange = {
    clientAddress: '127.0.0.1',
    clientCertificate: undefined,
    facts: { method, target: parseRequestTarget(method, target), host: undefined },
    head: { fields: FieldSection.of([]) },
    ...over,
  }
  return {
    admitted: { exchange } as unknown as RecheckedTunnel['admitted'],
    address,
    parent: undefined,
    verifiesServerName: false,
  }
}

async function isStillAllowed(open: RecheckedTunnel, under: RecheckOptions): Promise<boolean> {
  return (await recheck(open, under)) !== undefined
}

const CONNECT = tunnel('CONNECT', 'a.test:443')
const UPGRADE = tunnel('GET', 'http://a.test/')

t.test('a tunnel that would still be allowed stays open, another does not', async t => {
  for (const [yaml, connect, upgrade] of [
    ['', true, true],
    ['rules: {}', false, false],
    ['mode: observe\nrules: {}', true, true],
    ['connect: { ports: [444] }', false, true],
    ['forward: { ports: [81] }', true, false],
    ['deny: { hosts: [a.test] }', false, false],
    ['deny: { addresses: ["1.1.1.0/24"] }', false, false],
    ['rules: { pinned: { hosts: [a.test], addresses: ["1.1.1.2"], addresses_only: true } }', false, false],
    ['rules: { get: { hosts: [a.test], methods: [GET] } }', false, false],
    ['connect: { sni: verify }', false, true],
    ['clients: [{ name: far, cidr: ["10.0.0.0/8"], rules: all }]', false, false],
    ['clients: [{ name: near, cidr: ["127.0.0.1"], rules: [] }]', false, false],
  ] as const) {
    t.equal(await isStillAllowed(CONNECT, options(yaml)), connect, `CONNECT: ${yaml}`)
    t.equal(await isStillAllowed(UPGRADE, options(yaml)), upgrade, `upgrade: ${yaml}`)
  }
})

t.test('a tunnel that began with the right server name stays open where that is required', async t => {
  const verified = { ...CONNECT, verifiesServerName: true }
  t.equal(await isStillAllowed(verified, options('connect: { sni: verify }')), true)
})

t.test('the address is the one it is connected to', async t => {
  t.equal(await isStillAllowed(tunnel('CONNECT', 'a.test:443', '10.0.0.1'), options('')), false)
  t.equal(await isStillAllowed(tunnel('CONNECT', 'a.test:443', '2606:4700::1'), options('')), true)
})

t.test('the completed name of its host is judged as well', async t => {
  const completed = { ...tunnel('CONNECT', 'db:443'), completed: 'db.corp.test' }
  const rules = 'rules: { own: { hosts: [db] } }\n'
  for (const [yaml, allowed] of [
    [rules, true],
    [`${rules}deny: { hosts: ["*.corp.test"] }`, false],
    [
      'rules: { own: { hosts: [db] }, pin: { hosts: [db.corp.test], addresses: ["1.1.1.2"], addresses_only: true } }',
      false,
    ],
    ['rules: { web: { hosts: ["*"] } }', false],
  ] as const) {
    t.equal(await isStillAllowed(completed, options(yaml)), allowed, yaml)
  }
  t.equal(
    await isStillAllowed(tunnel('CONNECT', 'db:443'), options(`${rules}deny: { hosts: ["*.corp.test"] }`)),
    true,
  )
})

t.test('an upgrade through a route needs that route, and no rule', async t => {
  const upgrade = tunnel('GET', '/chat')
  const route = (path: string, methods: string[]) =>
    ({
      key: 'origins[0]',
      host: { kind: 'any' },
      path,
      methods,
      kind: 'store',
      handler: {},
    }) as unknown as OriginRoute
  t.equal(await isStillAllowed(upgrade, options('rules: {}', [route('/', ['GET'])])), true)
  t.equal(await isStillAllowed(upgrade, options('', [route('/', ['HEAD'])])), false)
  t.equal(await isStillAllowed(upgrade, options('', [route('/other', ['GET'])])), false)
})

t.test('a tunnel through a parent proxy needs that parent, and no address', async t => {
  const PARENT = 'http://parent.test:3128'
  const through = { ...tunnel('CONNECT', 'a.test:443', '10.0.0.1'), parent: PARENT }
  const parentsAt = (url: string, takes = true) =>
    ({ has: (asked: string) => asked === url, takes: () => takes }) as unknown as Parents
  const allowed = (yaml: string, parents: Parents | undefined) =>
    isStillAllowed(through, { ...options(yaml), parents })
  t.equal(await allowed('', parentsAt(PARENT)), true)
  t.equal(await allowed('rules: {}', parentsAt(PARENT)), false)
  t.equal(await allowed('', parentsAt('http://other.test:3128')), false)
  t.equal(await allowed('', parentsAt(PARENT, false)), false)
  t.equal(await allowed('', undefined), false)
  const pinned = 'rules: { a: { hosts: [a.test], addresses: ["10.0.0.1"], addresses_only: true } }'
  t.equal(await allowed(pinned, parentsAt(PARENT)), false)
})
