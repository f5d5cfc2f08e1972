import t from 'tap'
import type { Explanation } from '../../src/advice/explanation.js'
import { serializeExplanation, serializeExplanationJson } from '../../src/advice/explanation-report.js'
import { parseConfig } from '../../src/config/load.js'
import { ProxyError } from '../../src/errors.js'

const plain = (_color: string, text: string): string => text

const EXPLANATION: Explanation = {
  request: { form: 'connect', method: 'CONNECT', target: 'a.test:443', websocket: false },
  client: {
    kind: 'known',
    name: 'private',
    address: undefined,
    path: ['clients', 0],
    rules: 'all',
    mode: undefined,
    modePath: ['mode'],
    ownLimits: [],
    steps: [],
  },
  verdict: 'allow',
  rule: 'web',
  steps: [{ verdict: 'pass', path: ['connect', 'ports'], text: 'fine' }],
  lookup: { name: 'a.test', addresses: ['93.184.216.34'], ms: 1.6 },
  addresses: [],
  notes: [],
}

t.test('names the line of a key, or that it has its default', async t => {
  const loaded = parseConfig('version: 1\nconnect:\n  ports: [443]\n')
  t.equal(
    serializeExplanation(EXPLANATION, { loaded, file: 'dir/s.yaml' }, plain),
    `CONNECT a.test:443 for client private (default)
  pass  fine (dir/s.yaml:3)
DNS: a.test -> 93.184.216.34 (system resolver, 2 ms)
allow: rules.web
`,
  )
})

t.test('names the servers that were asked', async t => {
  const loaded = parseConfig('version: 1\ndns: { servers: ["10.0.0.2", "[fd00::1]:5353"] }\n')
  t.match(
    serializeExplanation(EXPLANATION, { loaded, file: 's.yaml' }, plain),
    '\nDNS: a.test -> 93.184.216.34 (dns.servers 10.0.0.2:53, [fd00::1]:5353, 2 ms)\n',
  )
})

t.test('says why DNS failed, below', async t => {
  const loaded = parseConfig('version: 1\n')
  const error = new ProxyError('dns_error', 'DNS failed for a.test', {
    detail: 'No server could be reached.',
  })
  const { status, reason, message, detail } = error
  const failed: Explanation = {
    ...EXPLANATION,
    verdict: 'dns_failed',
    refusal: { status, reason, message, detail },
    lookup: { name: 'a.test', addresses: [], ms: 0, error },
  }
  t.match(
    serializeExplanation(failed, { loaded, file: undefined }, plain),
    `
DNS: a.test -> DNS failed for a.test (system resolver, 0 ms)
  No server could be reached.
failed: DNS (502 DNS failed for a.test)
`,
  )
})

t.test('addresses and their classes stand in columns', async t => {
  const loaded = parseConfig('version: 1\n')
  const text = serializeExplanation(
    {
      ...EXPLANATION,
      addresses: [
        { address: '10.0.0.1', addressClass: 'private', verdict: 'deny', text: 'one' },
        { address: '127.0.0.1%lo', addressClass: undefined, verdict: 'deny', text: 'two' },
        { address: '2001:db8::1', addressClass: 'documentation', verdict: 'allow', text: 'three' },
      ],
    },
    { loaded, file: undefined },
    plain,
  )
  t.match(
    text,
    `
  deny  10.0.0.1      private        one
  deny  127.0.0.1%lo  no address     two
  allow 2001:db8::1   documentation  three
`,
  )
  const json = JSON.parse(
    serializeExplanationJson(
      {
        ...EXPLANATION,
        addresses: [{ address: 'x%y', addressClass: undefined, verdict: 'deny', text: 'two' }],
      },
      { loaded, file: undefined },
    ),
  )
  t.strictSame(json.addresses, [
    { address: 'x%y', class: null, verdict: 'deny', text: 'two', path: null, file: null, line: null },
  ])
})

t.test('only the word in front has a colour, and nothing that a text holds can add one', async t => {
  const loaded = parseConfig('version: 1\n')
  const text = serializeExplanation(
    { ...EXPLANATION, steps: [{ verdict: 'deny', text: 'deny \x1b[2J allow' }] },
    { loaded, file: undefined },
    (color, word) => `<${color} ${word}>`,
  )
  t.match(text, '\n  <red deny>  deny \\u{1b}[2J allow\n')
  t.match(text, '\n<green allow>: rules.web\n')
})
