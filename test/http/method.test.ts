import t from 'tap'
import {
  inTableOrder,
  isExtensionMethod,
  isMethod,
  METHOD_NAMES,
  METHODS,
  methodProperties,
  parseMethod,
} from '../../src/http/method.js'

const RESOURCE = ['origin', 'absolute']

/** Each method's row: safe, idempotent, cacheable, request content, response content, targets, Max-Forwards. */
const ROWS = [
  ['GET', 'RFC 9110 §9.3.1', true, true, 'yes', 'undefined-meaning', 'yes', RESOURCE, false],
  ['HEAD', 'RFC 9110 §9.3.2', true, true, 'yes', 'undefined-meaning', 'never', RESOURCE, false],
  ['POST', 'RFC 9110 §9.3.3', false, false, 'explicit', 'defined', 'yes', RESOURCE, false],
  ['PUT', 'RFC 9110 §9.3.4', false, true, 'no', 'defined', 'optional', RESOURCE, false],
  ['DELETE', 'RFC 9110 §9.3.5', false, true, 'no', 'undefined-meaning', 'optional', RESOURCE, false],
  ['CONNECT', 'RFC 9110 §9.3.6', false, false, 'no', 'forbidden', 'never', ['authority'], false],
  [
    'OPTIONS',
    'RFC 9110 §9.3.7',
    true,
    true,
    'no',
    'undefined-meaning',
    'optional',
    [...RESOURCE, 'asterisk'],
    true,
  ],
  ['TRACE', 'RFC 9110 §9.3.8', true, true, 'no', 'forbidden', 'yes', RESOURCE, true],
  ['PATCH', 'RFC 5789 §2', false, false, 'explicit', 'defined', 'optional', RESOURCE, false],
] as const

for (const [
  name,
  section,
  safe,
  idempotent,
  cacheable,
  requestContent,
  responseContent,
  targets,
  hops,
] of ROWS) {
  t.test(`${name} has the properties of its section (${section})`, async t => {
    t.same(METHODS[name], {
      safe,
      idempotent,
      cacheable,
      requestContent,
      responseContent,
      targets,
      maxForwards: hops,
      section,
    })
  })
}

t.test('the table has the nine methods and no other (RFC 9110 §9)', async t => {
  t.same(
    METHOD_NAMES,
    ROWS.map(([name]) => name),
  )
  t.same(Object.keys(METHODS), METHOD_NAMES)
  t.ok(Object.isFrozen(METHODS))
  t.ok(Object.isFrozen(METHOD_NAMES))
})

t.test('every safe method is idempotent (RFC 9110 §9.2.1, §9.2.2)', async t => {
  for (const name of METHOD_NAMES) t.ok(METHODS[name].idempotent || !METHODS[name].safe, name)
})

t.test(
  'only GET and HEAD are cacheable by default, POST and PATCH when the response says so (RFC 9110 §9.2.3, RFC 9111 §3)',
  async t => {
    const by = (cacheable: string) => METHOD_NAMES.filter(name => METHODS[name].cacheable === cacheable)
    t.same(by('yes'), ['GET', 'HEAD'])
    t.same(by('explicit'), ['POST', 'PATCH'])
  },
)

t.test('Max-Forwards applies only to OPTIONS and TRACE (RFC 9110 §7.6.2)', async t => {
  t.same(
    METHOD_NAMES.filter(name => METHODS[name].maxForwards),
    ['OPTIONS', 'TRACE'],
  )
})

t.test('methods are compared byte for byte (RFC 9110 §9.1)', async t => {
  for (const name of METHOD_NAMES) {
    t.equal(parseMethod(name, []), name)
    const others = [
      name.toLowerCase(),
      `${name.charAt(0)}${name.slice(1).toLowerCase()}`,
      `${name}S`,
      `X${name}`,
    ]
    for (const other of [...others, name.slice(1), `${name} `]) {
      t.notOk(isMethod(other))
      t.throws(() => parseMethod(other, []), { name: 'ProxyError', status: 501 }, other)
    }
  }
})

t.test(
  'any other token is 501, and the response names the key that enables it (RFC 9110 §15.6.2)',
  async t => {
    for (const name of ['PROPFIND', 'PRI', 'Get', 'constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      t.throws(() => parseMethod(name, ['REPORT']), {
        name: 'ProxyError',
        status: 501,
        side: 'client',
        close: true,
        reason: 'method_not_implemented',
        detail: /PATCH, REPORT, .* methods\.extra /,
      })
    }
  },
)

t.test('an extension method is accepted byte for byte as configured (RFC 9110 §9.1, §16.1)', async t => {
  const extra = ['PROPFIND', 'Report']
  for (const name of [...extra, 'GET']) t.equal(parseMethod(name, extra), name)
  for (const name of ['propfind', 'Propfind', 'PROPFINDS', 'PROPFIN', 'REPORT', 'report', '']) {
    t.throws(() => parseMethod(name, extra), { name: 'ProxyError', status: 501 }, name)
  }
})

t.test('nothing is assumed of an extension method (RFC 9110 §16.1.2)', async t => {
  for (const name of ['PROPFIND', 'get', 'constructor', '__proto__']) {
    t.match(methodProperties(name), {
      safe: false,
      idempotent: false,
      cacheable: 'no',
      requestContent: 'defined',
      responseContent: 'optional',
      targets: RESOURCE,
      maxForwards: false,
    })
  }
  t.ok(Object.isFrozen(methodProperties('PROPFIND')))
  for (const name of METHOD_NAMES) t.equal(methodProperties(name), METHODS[name])
})

t.test('any token except the nine, in any case, may be an extension method (RFC 9110 §16.1)', async t => {
  for (const name of ['PROPFIND', 'M-SEARCH', 'Report', 'x', 'GETS', "!#$%&'*+-.^_`|~09", 'constructor']) {
    t.ok(isExtensionMethod(name), name)
  }
  for (const name of [...METHOD_NAMES, 'get', 'Connect', 'tRACE', '', 'A B', 'A/B', 'A,B', 'A:', '\u0130']) {
    t.notOk(isExtensionMethod(name), name)
  }
})

t.test('the nine are in the order of the table, others follow in the order given, each once', async t => {
  t.same(inTableOrder(['Z', 'PATCH', 'A', 'GET', 'Z', 'GET']), ['GET', 'PATCH', 'Z', 'A'])
  t.same(inTableOrder([]), [])
})
