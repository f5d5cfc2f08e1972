import fc from 'fast-check'
import t from 'tap'
import {
  type DraftOptions,
  draftRules,
  groupSubdomains,
  serializeRules,
} from '../../src/advice/draft-rules.js'
import { type LoggedTarget, parseLogLine, Sightings } from '../../src/advice/log-reader.js'
import { parseConfig } from '../../src/config/load.js'
import { type Host, parseHost } from '../../src/http/authority.js'
import { type Method, METHOD_NAMES } from '../../src/http/method.js'
import { parsePorts, serializePorts } from '../../src/net/ports.js'
import { policyOf } from '../kit/proxies/policy-of.js'
import { runs } from '../kit/runs.js'

/** `METHOD host:port`, or `UPGRADE host:port`; IPv6 in brackets. */
function seen(...lines: string[]): Sightings {
  const sightings = new Sightings()
  for (const line of lines) {
    const [method = '', authority = ''] = line.split(' ')
    const colon = authority.lastIndexOf(':')
    const target: LoggedTarget = {
      form: method === 'CONNECT' ? 'connect' : 'forward',
      method: method === 'UPGRADE' ? 'GET' : (method as Method),
      host: parseHost(authority.slice(0, colon)),
      port: Number(authority.slice(colon + 1)),
    }
    if (method === 'UPGRADE') sightings.addUpgrade(target)
    else sightings.add(target)
  }
  return sightings
}

/** `name: hosts | ports | methods` for each rule. */
function drafted(sightings: Sightings, options?: DraftOptions): string[] {
  return draftRules(sightings, options).map(
    ({ name, hosts, ports, methods }) =>
      `${name}: ${hosts.join(' ')} | ${serializePorts(ports)} | ${methods?.join(' ') ?? 'any'}`,
  )
}

t.test('hosts used in the same way share a rule, sorted', async t => {
  t.strictSame(drafted(seen('CONNECT b.test:443', 'CONNECT a.test:443', 'CONNECT b.test:443')), [
    'https: a.test b.test | 443 | any',
  ])
})

t.test('tunnels and http:// get a rule each, so that the one opens nothing to the other', async t => {
  t.strictSame(drafted(seen('GET a.test:80', 'CONNECT a.test:443', 'CONNECT b.test:443')), [
    'https: a.test b.test | 443 | any',
    'http-read: a.test | 80 | GET',
  ])
})

t.test('ports of one host whose methods differ are in different rules', async t => {
  t.strictSame(drafted(seen('GET a.test:80', 'POST a.test:8080', 'HEAD a.test:81', 'GET a.test:82')), [
    'http-read-80-82: a.test | 80, 82 | GET',
    'http-read-81: a.test | 81 | HEAD',
    'http-write-8080: a.test | 8080 | POST',
  ])
})

t.test('what a rule for a tunnel to the same port allows anyway has no rule of its own', async t => {
  t.strictSame(drafted(seen('GET a.test:443', 'CONNECT a.test:443')), ['https: a.test | 443 | any'])
})

t.test('an upgrade has no methods, whichever event came first, and alone it is nothing', async t => {
  const rule = ['upgrade-80: a.test | 80 | any']
  t.strictSame(drafted(seen('GET a.test:80', 'UPGRADE a.test:80')), rule)
  t.strictSame(drafted(seen('UPGRADE a.test:80', 'GET a.test:80')), rule)
  t.strictSame(drafted(seen('UPGRADE a.test:80')), [])
})

t.test('names tell how and where, are distinct, and none that is taken', async t => {
  t.strictSame(
    drafted(seen('GET a.test:80', 'GET b.test:80', 'HEAD b.test:80', 'CONNECT c.test:443'), {
      taken: ['https', 'http-read-2'],
    }),
    ['https-2: c.test | 443 | any', 'http-read: a.test | 80 | GET', 'http-read-3: b.test | 80 | GET HEAD'],
  )
  const ports = [80, 443, 8443, 9000, 9443].map(port => `CONNECT a.test:${port}`)
  t.strictSame(drafted(seen(...ports)), [
    'tunnel-80-443-8443-and-more: a.test | 80, 443, 8443, 9000, 9443 | any',
  ])
})

t.test('extension methods stand behind the nine, and are none that only reads', async t => {
  t.strictSame(drafted(seen('REPORT a.test:80', 'GET a.test:80', 'ACL a.test:80')), [
    'http-write: a.test | 80 | GET ACL REPORT',
  ])
})

t.test('what was seen in another order is drafted alike', async t => {
  const lines = [
    'Z b.test:80',
    'A b.test:80',
    'GET b.test:80',
    'CONNECT a.test:443',
    'POST c.test:80',
    'GET a.test:80',
    'HEAD b.test:80',
  ]
  t.strictSame(drafted(seen(...lines)), drafted(seen(...[...lines].reverse())))
})

t.test('wildcards are drafted only when asked for', async t => {
  const sightings = seen('CONNECT a.x.test:443', 'CONNECT b.x.test:443', 'CONNECT c.x.test:8443')
  t.strictSame(drafted(sightings, { groupFrom: 2 }), [
    'https: *.x.test | 443 | any',
    'tunnel-8443: c.x.test | 8443 | any',
  ])
  t.match(drafted(sightings)[0], 'https: a.x.test b.x.test')
})

const HOSTS = ['a.test', 'b.a.test', 'null', 'true', 'x_1.test', '203.0.113.5', '::1']
const PORTS = [1, 79, 80, 81, 443, 65535]
const ways = fc.constantFrom(...METHOD_NAMES, 'UPGRADE' as const)
const sighting = fc.record({
  way: ways,
  host: fc.constantFrom(...HOSTS),
  port: fc.constantFrom(...PORTS),
})

const hostOf = (name: string): Host => parseHost(name.includes(':') ? `[${name}]` : name)

t.test(
  'the rules allow all that was seen and, but for what a tunnel to a port implies, nothing else',
  async t => {
    let rules = 0
    fc.assert(
      fc.property(fc.array(sighting, { maxLength: 12 }), sightings => {
        const lines = sightings.map(
          ({ way, host, port }) => `${way} ${host.includes(':') ? `[${host}]` : host}:${port}`,
        )
        const draft = draftRules(seen(...lines))
        rules += draft.length
        const { config, warnings } = parseConfig(`version: 1\n${serializeRules(draft)}`)
        const policy = policyOf(config)
        const was = (way: string, host: string, port: number) =>
          sightings.some(one => one.way === way && one.host === host && one.port === port)
        for (const host of [...HOSTS, 'c.a.test', 'test', '::2', '203.0.113.6']) {
          for (const port of [...PORTS, 2, 444]) {
            const forwarded = METHOD_NAMES.some(method => method !== 'CONNECT' && was(method, host, port))
            const open = was('CONNECT', host, port) || (was('UPGRADE', host, port) && forwarded)
            for (const method of METHOD_NAMES) {
              const form = method === 'CONNECT' ? 'connect' : 'forward'
              const { kind } = policy.admit({ form, method, host: hostOf(host), port, rules: 'all' })
              const expected = open || was(method, host, port) ? 'allow' : 'deny'
              if (kind !== expected) throw new Error(`${method} ${host}:${port} ${kind}`)
            }
          }
        }
        return warnings.every(({ message }) => message.includes('is of class'))
      }),
      { numRuns: runs(60) },
    )
    t.ok(rules > runs(60, 1), 'there were rules')
  },
)

t.test(
  'whatever a line of a log holds for a host, what is drafted is a configuration that names hosts alone',
  async t => {
    const texts = fc.oneof(
      fc.string(),
      fc.constantFrom(
        '*',
        '*.test',
        '0.0.0.0/0',
        '::/0',
        'a]: {',
        'a\n  b: c',
        '"',
        "'",
        '&a',
        '!!x',
        '- a',
        'a #',
      ),
      fc.string({ unit: fc.constantFrom(...'a1.-_*:/[]{}#&!|>%@`"\'\n \t,?é') }),
      fc.domain(),
      fc.ipV4(),
      fc.ipV6(),
    )
    let hosts = 0
    fc.assert(
      fc.property(fc.array(texts, { maxLength: 5 }), names => {
        const sightings = new Sightings()
        for (const host of names) {
          const event = parseLogLine(
            JSON.stringify({
              event: 'decision',
              kind: 'connect',
              method: 'CONNECT',
              host,
              port: 443,
              decision: 'allow',
            }),
          )
          if (event?.event === 'decision' && event.target !== undefined) sightings.add(event.target)
        }
        const { config } = parseConfig(`version: 1\n${serializeRules(draftRules(sightings))}`)
        const patterns = [...config.rules.values()].flatMap(rule => rule.hosts)
        hosts += patterns.length
        return (
          [...config.rules.keys()].every(name => name === 'https') &&
          patterns.length === sightings.hosts.size &&
          patterns.every(({ kind }) => kind === 'exact' || kind === 'address')
        )
      }),
      { numRuns: runs(200, 60) },
    )
    t.ok(hosts > runs(50, 1), 'there were hosts')
  },
)

t.test('names directly below one parent become a wildcard, from that many on', async t => {
  const two = ['a.x.test', 'b.x.test']
  const three = [...two, 'c.x.test']
  t.strictSame(groupSubdomains(two, 3), two)
  t.strictSame(groupSubdomains(three, 3), ['*.x.test'])
  t.strictSame(groupSubdomains(three, 4), three)
  t.strictSame(groupSubdomains([...two, 'x.test', 'c.y.test'], 2), ['*.x.test', 'x.test', 'c.y.test'])
})

t.test('a wildcard takes in deeper names, and wildcards below it', async t => {
  t.strictSame(groupSubdomains(['a.x.test', 'b.x.test', 'c.d.x.test'], 2), ['*.x.test'])
  const deep = ['a.d.x.test', 'b.d.x.test']
  t.strictSame(groupSubdomains(deep, 2), ['*.d.x.test'])
  t.strictSame(groupSubdomains([...deep, 'a.x.test', 'b.x.test'], 2), ['*.x.test'])
  t.strictSame(
    groupSubdomains(['a.d.x.test', 'b.e.x.test', 'c.f.x.test'], 2).length,
    3,
    'cousins are no siblings',
  )
})

t.test('never below a single label, nor below what looks like a registry', async t => {
  for (const parent of ['test', 'com', 'co.uk', 'com.au', 'ac.jp', 'k12.us']) {
    const names = ['a', 'b', 'c', 'd'].map(name => `${name}.${parent}`)
    t.strictSame(groupSubdomains(names, 2), names, parent)
  }
  for (const parent of ['shop.co.uk', 'abcd.uk', 'abc.test']) {
    const names = ['a', 'b'].map(name => `${name}.${parent}`)
    t.strictSame(groupSubdomains(names, 2), [`*.${parent}`], parent)
  }
})

t.test('leaves addresses alone', async t => {
  const addresses = ['10.1.0.1', '10.2.0.1', '10.3.0.1', '2001:db8::1', '::ffff:10.0.0.1', '::fffe:10.0.0.1']
  t.strictSame(groupSubdomains(addresses, 2), addresses)
})

t.test(
  'one host stands in the line of its key, several below it, ports and methods always in it',
  async t => {
    t.equal(
      serializeRules([
        { name: 'one', hosts: ['a.test'], ports: parsePorts([443]) },
        { name: 'two', hosts: ['a.test', 'b.test'], ports: parsePorts([80, 8080]), methods: ['GET', 'HEAD'] },
        { name: 'bare', hosts: ['*'] },
      ]),
      `rules:
  one:
    hosts: [a.test]
    ports: [443]
  two:
    hosts:
      - a.test
      - b.test
    ports: [80, 8080]
    methods: [GET, HEAD]
  bare:
    hosts: ["*"]
`,
    )
  },
)

t.test('no rule is a map that is empty', async t => {
  t.equal(serializeRules([]), 'rules: {}\n')
})

t.test('a wildcard stands in a line of its own, with what to check about it', async t => {
  t.equal(
    serializeRules([{ name: 'w', hosts: ['*.a.test'] }]),
    'rules:\n  w:\n    hosts:\n      - "*.a.test" # check: every name below a.test\n',
  )
})

t.test('three ports in a row and more are a range', async t => {
  const line = (...ports: number[]) =>
    /ports: .*/.exec(serializeRules([{ name: 'r', hosts: ['a.test'], ports: parsePorts(ports) }]))?.[0]
  t.equal(line(1, 2), 'ports: [1, 2]')
  t.equal(line(1, 2, 3, 5), 'ports: [1-3, 5]')
})

t.test('long lists of hosts are not folded, and what YAML takes for something else is quoted', async t => {
  const long = `${'a'.repeat(63)}.${'b'.repeat(63)}.test`
  const text = serializeRules([
    { name: 'r', hosts: ['null', '::1', '2001:db8::1', 'true', '1e3', '0x1f', long] },
  ])
  t.equal(
    text,
    `rules:\n  r:\n    hosts:\n      - "null"\n      - ::1\n      - 2001:db8::1\n      - "true"\n      - "1e3"\n      - "0x1f"\n      - ${long}\n`,
  )
})

t.test('addresses stand in one line, and hosts may be left out of what changes a rule', async t => {
  t.equal(
    serializeRules([
      { name: 'inner', ports: parsePorts([80, '8000-8010']), addresses: ['10.0.0.1/32', 'fd00::1/128'] },
    ]),
    'rules:\n  inner:\n    ports: [80, 8000-8010]\n    addresses: [10.0.0.1/32, "fd00::1/128"]\n'.replaceAll(
      '"',
      '',
    ),
  )
})
