import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { load, problems, refuses } from './problems-of.js'

t.test('one URL or several, and what is reached directly', async t => {
  const { parent } = load('parent: { url: "http://proxy.corp:8080" }')
  t.match(parent, { urls: [{ text: 'http://proxy.corp:8080' }], noProxy: [], basicFile: undefined })
  const many = load(
    'parent: { url: ["HTTPS://A.corp", "http://[::1]:3128/"], no_proxy: [a.test, ".b.test", "*.c.test", 10.0.0.1, "10.1.0.0/16", "[::1]"] }',
  ).parent
  t.same(
    many?.urls.map(({ text }) => text),
    ['https://a.corp:443', 'http://[::1]:3128'],
  )
  t.match(many?.noProxy, [
    { kind: 'exact', name: 'a.test' },
    { kind: 'suffix', suffix: '.b.test' },
    { kind: 'suffix', suffix: '.c.test' },
    { kind: 'address' },
    { kind: 'cidr' },
    { kind: 'address' },
  ])
  t.equal(load('').parent, undefined)
})

t.test('what is none is refused, with what was expected', async t => {
  const expected = 'expected a URL such as "http://10.0.0.5:8080" or "https://api.example"'
  refuses(t, [
    ['parent: {}', `2:1 parent.url: the key \`url\` is missing; ${expected}, or a list of them`],
    ['parent: { url: [] }', '2:16 parent.url: expected a list of URLs, found an empty list'],
    [
      'parent: { url: "socks5://p:1080" }',
      `2:16 parent.url: ${expected}, found "socks5://p:1080", which does not begin with http:// or https://`,
    ],
    [
      'parent: { url: "http://p/x" }',
      `2:16 parent.url: ${expected}, found "http://p/x", with a path or query; requests keep their own`,
    ],
    ['parent: { url: "http://p", ca: ca.crt }', '2:9 parent: ca is for https:// parents, and url names none'],
    [
      'parent: { url: "http://p", no_proxy: ["*"] }',
      '2:39 parent.no_proxy[0]: expected a host name, ".example.com", an IP address or a CIDR, found "*"; leave parent out to send nothing through one',
    ],
  ])
  const direct = 'expected a host name, ".example.com", an IP address or a CIDR'
  for (const [written, problem] of [
    ['a.test:80', `${direct}, found "a.test:80", with a port; leave it out`],
    ['.a.test:80', `${direct}, found ".a.test:80", with a port; leave it out`],
    ['.0.0.1', `${direct}, found ".0.0.1"`],
    ['.', `${direct}, found "."`],
    ['.10.0.0.1', `${direct}, found ".10.0.0.1", which is below an address; write a CIDR`],
    ['.a.test/8', 'expected an IP address or a CIDR such as 10.0.0.0/8, found ".a.test/8"'],
  ]) {
    refuses(t, [
      [`parent: { url: "http://p", no_proxy: ["${written}"] }`, `2:39 parent.no_proxy[0]: ${problem}`],
    ])
  }
})

t.test('credentials in a URL are refused, and shown nowhere', async t => {
  const remedy =
    'found credentials in the URL; write them as user:password into a file, and its path into basic_file'
  for (const url of ['http://me:secret@p:1', 'http://me:sec/ret@p', 'me:secret@p:8080']) {
    t.same(problems(`parent: { url: "${url}" }`), [`2:16 parent.url: ${remedy}`])
    t.same(problems(`parent: { url: ["http://a", "${url}"] }`), [`2:29 parent.url[1]: ${remedy}`])
  }
  for (const yaml of [
    'parent: "http://me:secret@p:1"',
    'parent: ["http://me:secret@p:1"]',
    'origins: [{ path: /, forward: "http://me:secret@p:1" }]',
  ]) {
    const [problem = ''] = problems(yaml)
    t.not(problem, '')
    t.notMatch(problem, /secret/, yaml)
  }
})

t.test('a whole configuration is frozen with it', async t => {
  const { parent } = parseConfig('version: 1\nparent: { url: "http://p" }\n').config
  t.ok(Object.isFrozen(parent?.urls))
})
