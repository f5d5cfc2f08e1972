import t from 'tap'
import { load, problems, refuses } from './problems-of.js'

const METHOD = 'expected a method, such as PROPFIND'
const METHODS = 'expected a list of methods, such as [PROPFIND, REPORT]'
const FIELD = 'expected a field name, such as X-Api-Key'

t.test('TRACE is off, and its echo leaves out nothing more than it always does', async t => {
  t.same(load('').trace, { enabled: false, exclude: [] })
  t.same(load('trace: { enabled: true }').trace, { enabled: true, exclude: [] })
  t.same(load('trace: { exclude: [X-Api-Key, x_token] }').trace.exclude, ['x-api-key', 'x_token'])
  refuses(t, [
    ['trace: true', '2:8 trace: expected a map of enabled, exclude, found true'],
    ['trace: { enabled: on }', '2:19 trace.enabled: expected true or false, found "on"'],
    [
      'trace: { exclude: X }',
      `2:19 trace.exclude: expected a list of field names, such as [X-Api-Key], found "X"`,
    ],
    ['trace: { exclude: ["a b"] }', `2:20 trace.exclude[0]: ${FIELD}, found "a b"`],
    ['trace: { exclude: ["a:"] }', `2:20 trace.exclude[0]: ${FIELD}, found "a:"`],
    ['trace: { exclude: [""] }', `2:20 trace.exclude[0]: ${FIELD}, found ""`],
    ['trace: { exclude: [1] }', `2:20 trace.exclude[0]: ${FIELD}, found 1`],
  ])
})

t.test('extension methods are tokens, as they are written and in their order', async t => {
  t.same(load('').methods, { extra: [] })
  t.same(load('methods: { extra: [REPORT, Propfind, propfind, M-SEARCH] }').methods.extra, [
    'REPORT',
    'Propfind',
    'propfind',
    'M-SEARCH',
  ])
  const listed = (method: string) =>
    `${method} is no extension method; list it in methods of a rule or an origin`
  const folded = (method: string) =>
    `"${method}" cannot be let through: a server that ignores case takes it for another`
  refuses(t, [
    ['methods: [PROPFIND]', '2:10 methods: expected a map of extra, found a list'],
    ['methods: { extra: PROPFIND }', `2:19 methods.extra: ${METHODS}, found "PROPFIND"`],
    ['methods: { extra: [GET] }', `2:20 methods.extra[0]: ${listed('GET')}`],
    ['methods: { extra: [A, get] }', `2:23 methods.extra[1]: ${folded('get')}`],
    ['methods: { extra: [Connect] }', `2:20 methods.extra[0]: ${folded('Connect')}`],
    ['methods: { extra: [""] }', `2:20 methods.extra[0]: ${METHOD}, found ""`],
    ['methods: { extra: [A B] }', `2:20 methods.extra[0]: ${METHOD}, found "A B"`],
    ['methods: { extra: ["A,"] }', `2:20 methods.extra[0]: ${METHOD}, found "A,"`],
    ['methods: { extra: [7] }', `2:20 methods.extra[0]: ${METHOD}, found 7`],
    ['methods: { extra: [A, B, A] }', '2:26 methods.extra[2]: A is listed twice under methods.extra'],
  ])
})

t.test('CONNECT is refused by its own name: tunnels are no method of a rule', async t => {
  refuses(t, [
    [
      'methods: { extra: [CONNECT] }',
      '2:20 methods.extra[0]: CONNECT opens tunnels, and is no extension method',
    ],
  ])
})

t.test('an origin may list them too, and a store none, which knows the nine alone', async t => {
  const known = 'expected one of GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH'
  const origins = (methods: string) => `methods: { extra: [PROPFIND, REPORT] }
origins:
  - { path: /, methods: ${methods}, forward: "http://a" }
  - { path: /s, methods: ${methods}, store: {} }
`
  t.same(load(origins('[TRACE, GET]')).origins[0]?.methods, ['TRACE', 'GET'])
  t.same(load('origins: [{ path: /, forward: "http://a" }]').origins[0]?.methods, undefined)
  t.same(problems(origins('[PROPFIND, get, MKCOL]')), [
    `4:36 origins[0].methods[1]: ${known}, PROPFIND, REPORT, found "get"; did you mean GET?`,
    `4:41 origins[0].methods[2]: ${known}, PROPFIND, REPORT, found "MKCOL"; an extension method has to be in methods.extra too`,
    `5:27 origins[1].methods[0]: ${known}, found "PROPFIND"; a store takes no extension method`,
    `5:37 origins[1].methods[1]: ${known}, found "get"; did you mean GET?`,
    `5:42 origins[1].methods[2]: ${known}, found "MKCOL"; a store takes no extension method`,
  ])
})

t.test('a rule may list the extension methods that pass, byte for byte', async t => {
  const rule = (methods: string) => `rules: { a: { hosts: [a.b], methods: ${methods} } }`
  const extra = 'methods: { extra: [PROPFIND, REPORT] }\n'
  t.same(load(extra + rule('[PROPFIND, GET, TRACE]')).rules.get('a')?.methods, ['PROPFIND', 'GET', 'TRACE'])
  const known = 'expected one of GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH, PROPFIND, REPORT'
  t.same(problems(extra + rule('[propfind, MKCOL, "A B", CONNECT]')), [
    `3:39 rules.a.methods[0]: ${known}, found "propfind"; did you mean PROPFIND?`,
    `3:49 rules.a.methods[1]: ${known}, found "MKCOL"; an extension method has to be in methods.extra too`,
    `3:56 rules.a.methods[2]: ${known}, found "A B"`,
    '3:63 rules.a.methods[3]: CONNECT cannot be listed: a rule with methods refuses tunnels',
  ])
})
