import { join } from 'node:path'
import { chmodSync } from 'node:fs'
import t from 'tap'
import { jsonSchema } from '../../src/cli/schema.js'
import { redisUrlWithCredentials } from '../../src/config/cache.js'
import { type Loaded, parseConfig } from '../../src/config/load.js'
import { Authority } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'
import { load, problems, refuses } from './problems-of.js'

const DEFAULTS = {
  sizeBytes: 256 * 1024 ** 2,
  maxObjectBytes: 16 * 1024 ** 2,
  sharedBy: 'user',
  keyInStatus: false,
  rules: [],
}

t.test('it is off unless it is asked for, and one line asks for it', async t => {
  t.equal(load('').cache, undefined)
  t.strictSame(load('cache: {}').cache, { ...DEFAULTS, store: 'memory' })
  t.strictSame(load('cache: memory').cache, { ...DEFAULTS, store: 'memory' })
  t.strictSame(load('cache: { store: memory }').cache, { ...DEFAULTS, store: 'memory' })
  t.strictSame(load('cache: disk').cache, { ...DEFAULTS, store: 'disk', directory: './cache' })
  t.ok(Object.isFrozen(load('cache: memory').cache))
})

t.test('every key is read into units', async t => {
  t.strictSame(load('cache: { store: disk, directory: /var/cache/x, size: 1GiB, max_object: 64KiB }').cache, {
    ...DEFAULTS,
    store: 'disk',
    directory: '/var/cache/x',
    sizeBytes: 1024 ** 3,
    maxObjectBytes: 65536,
  })
  t.match(load('cache: { shared_by: client, key_in_status: true }').cache, {
    sharedBy: 'client',
    keyInStatus: true,
  })
  t.strictSame(
    load(
      'cache: { rules: [{ hosts: [API.example], store: off }, { hosts: ["*.a.example", 10.0.0.1], min_ttl: 1h, max_ttl: 1d }, { hosts: ["*"], max_ttl: 0s }] }',
    ).cache?.rules,
    [
      { hosts: [{ kind: 'exact', name: 'api.example' }], store: false },
      {
        hosts: [
          { kind: 'suffix', suffix: '.a.example' },
          { kind: 'address', ip: { family: 4, text: '10.0.0.1', bytes: [10, 0, 0, 1] } },
        ],
        store: true,
        minTtlMs: 3_600_000,
        maxTtlMs: 86_400_000,
      },
      { hosts: [{ kind: 'any' }], store: true, maxTtlMs: 0 },
    ],
  )
})

t.test('the URL of Redis is one server, or a list of nodes of a cluster', async t => {
  t.match(load('cache: { store: redis, url: "REDISS://Cache.example/3" }').cache, {
    store: 'redis',
    urls: ['rediss://cache.example:6379/3'],
    user: undefined,
    passwordFile: undefined,
    ca: undefined,
  })
  t.match(load('cache: { store: redis, url: ["redis://10.0.0.9:7000", "redis://[::1]:7001/"] }').cache, {
    urls: ['redis://10.0.0.9:7000/0', 'redis://[::1]:7001/0'],
  })
  for (const [url, clause] of [
    ['', 'which is no URL'],
    ['http://r:6379', 'which does not begin with redis://, rediss:// or unix://'],
    ['redis://', 'expected a URL such as'],
    ['redis://r:0', 'with port 0'],
    ['redis://r/x', 'whose path is no number of a database'],
    ['redis://r/1/2', 'whose path is no number of a database'],
    ['redis://r?db=1', 'with a query or fragment'],
    ['redis://r#1', 'with a query or fragment'],
    ['unix://run/redis.sock', 'without the path of a Unix socket'],
  ] as const) {
    t.match(problems(`cache: { store: redis, url: "${url}" }`), [clause], url)
  }
  refuses(t, [
    [
      'cache: { store: redis, url: ["redis://a", "rediss://b"] }',
      '2:29 cache.url: found URLs of different schemes; the nodes of one cluster are reached in one way',
    ],
    [
      'cache: { store: redis, url: ["redis://a", "redis://b/1"] }',
      '2:29 cache.url: found the number of a database in a list; a cluster has database 0 alone',
    ],
  ])
})

t.test('credentials in a URL are refused, and shown nowhere', async t => {
  for (const url of ['redis://me:secret@r:6379', 'redis://:sec/ret@r', 'me:secret@r']) {
    t.same(problems(`cache: { store: redis, url: "${url}" }`), [
      '2:29 cache.url: found credentials in the URL; write the password into a file, its path into password_file, and the name into user',
    ])
  }
  for (const yaml of ['cache: "redis://me:secret@r"', 'cache: { store: "redis://me:secret@r" }']) {
    const [problem = ''] = problems(yaml)
    t.match(problem, /cache.*expected/)
    t.notMatch(problem, /secret/, yaml)
  }
})

t.test('a key that does not fit the store is named with the one it goes with', async t => {
  refuses(t, [
    [
      'cache: { directory: ./c }',
      '2:21 cache.directory: directory goes with store: disk, found it with store: memory',
    ],
    [
      'cache: { store: redis, url: "redis://r", directory: ./c }',
      '2:53 cache.directory: directory goes with store: disk, found it with store: redis',
    ],
    [
      'cache: { store: disk, url: "redis://r" }',
      '2:28 cache.url: url goes with store: redis, found it with store: disk',
    ],
    ['cache: { store: redis }', '2:17 cache.store: store: redis needs url, such as "redis://10.0.0.9:6379"'],
    [
      'cache: { store: redis, url: "redis://r", ca: ca.crt }',
      '2:46 cache.ca: ca is for rediss:// URLs, and url names none',
    ],
    [
      'cache: { store: redis, url: "redis://r", user: me }',
      '2:48 cache.user: a user logs in with a password; set password_file too',
    ],
    [
      'cache: { store: redis, url: "redis://r", password_file: p, user: "a b" }',
      '2:66 cache.user: expected the name of a user of Redis, found "a b"',
    ],
  ])
  t.same(problems('cache: { user: me, ca: x, password_file: y }').length, 3, 'all of them at once')
})

t.test('what is none is refused, with what was expected', async t => {
  const keys =
    'store, size, max_object, directory, url, user, password_file, ca, shared_by, key_in_status, rules'
  refuses(t, [
    ['cache: true', `2:8 cache: expected memory, disk, or a map of ${keys}, found true`],
    ['cache: redis', `2:8 cache: expected memory, disk, or a map of ${keys}, found "redis"`],
    ['cache: []', `2:8 cache: expected memory, disk, or a map of ${keys}, found an empty list`],
    ['cache: { sise: 1MiB }', '2:10 cache.sise: unknown key `sise`; did you mean `size`?'],
    ['cache: { store: file }', '2:17 cache.store: expected memory, disk or redis, found "file"'],
    [
      'cache: { size: 100 }',
      '2:16 cache.size: expected a size with its unit, such as 100B or 100KiB, found 100',
    ],
    ['cache: { size: 1023KiB }', '2:16 cache.size: expected a size from 1MiB to 1048576GiB, found 1023KiB'],
    [
      'cache: { max_object: 1023B }',
      '2:22 cache.max_object: expected a size from 1KiB to 1024GiB, found 1023B',
    ],
    [
      'cache: { size: 1MiB, max_object: 1025KiB }',
      '2:16 cache.size: expected at least max_object in size, which is 1025KiB, found 1MiB',
    ],
    [
      'cache: { size: 8MiB }',
      '2:16 cache.size: expected at least max_object in size, which is 16MiB, found 8MiB',
    ],
    [
      'cache: { shared_by: nobody }',
      '2:21 cache.shared_by: expected user, client or everyone, found "nobody"',
    ],
    ['cache: { key_in_status: 1 }', '2:25 cache.key_in_status: expected true or false, found 1'],
  ])
  t.same(problems('cache: { size: 1MiB, max_object: 1MiB }'), [])
})

t.test('a rule says one thing of its hosts', async t => {
  const rule = (text: string) => `cache: { rules: [${text}] }`
  refuses(t, [
    [
      rule('{ hosts: [a.test] }'),
      '2:27 cache.rules[0].hosts: expected store: off, min_ttl or max_ttl beside them, found none of these',
    ],
    [
      rule('{ store: off }'),
      '2:18 cache.rules[0].hosts: the key `hosts` is missing; expected a list of hosts, such as [example.com, "*.example.com"]',
    ],
    [
      rule('{ hosts: [a.test], store: on }'),
      '2:44 cache.rules[0].store: expected off; leave the key out to store what its origin allows, found "on"',
    ],
    [
      rule('{ hosts: [a.test], store: off, min_ttl: 1h }'),
      '2:58 cache.rules[0].min_ttl: nothing is stored that could be fresh: store is off',
    ],
    [
      rule('{ hosts: [a.test], min_ttl: 2h, max_ttl: 90m }'),
      '2:46 cache.rules[0].min_ttl: expected at most max_ttl, which is 90m, found 2h',
    ],
    [
      rule('{ hosts: [a.test], max_ttl: 366d }'),
      '2:46 cache.rules[0].max_ttl: expected a duration from 0s to 365d, found 366d',
    ],
    [
      rule('{ hosts: [a.test], min_ttl: 0s }'),
      '2:46 cache.rules[0].min_ttl: expected a duration from 1s to 365d, found 0s',
    ],
    [
      rule('{ hosts: ["a.test:80"], store: off }'),
      '2:28 cache.rules[0].hosts[0]: expected a host name, "*.example.com", "*", an IP address or a CIDR, found "a.test:80", with a port; leave it out',
    ],
    [
      rule('{ hosts: [a.test], store: off }, { hosts: [b.test, A.test.], max_ttl: 1h }'),
      '2:69 cache.rules[1].hosts[1]: a.test is listed twice under cache.rules',
    ],
  ])
  t.same(problems(rule('{ hosts: [a.test], min_ttl: 1h, max_ttl: 1h }')), [])
  t.same(problems(rule('{ hosts: ["*.test"], store: off }, { hosts: [a.test, "*"], max_ttl: 1h }')), [])
})

t.test('the directory of the cache is apart from those of stores', async t => {
  const folder = t.testdir({ data: {}, link: t.fixture('symlink', 'data') })
  const found = (cache: string, store: string) => {
    try {
      parseConfig(
        `version: 1\ncache: ${cache}\norigins: [{ host: a.test, path: /, store: {${store}} }]\n`,
        'x',
        folder,
      )
      return []
    } catch (error) {
      return String(error instanceof Error ? error.message : error).split('\n')
    }
  }
  const line = (place: string, cache: string, store: string) =>
    `x:${place}: \`${cache}\` and \`${store}\`, the directory of origins[0], lie within each other; keep them apart`
  const named = (directory: string) => `{ store: disk, directory: ${directory} }`
  const shown = (place: string, a: string, b: string) =>
    line(place, a, b).replaceAll(/`([^`]*[./][^`]*)`/g, '"$1"')
  t.same(found('disk', ' directory: cache '), [shown('2:1: cache', './cache', 'cache')])
  t.same(found(named('data'), ''), [shown('2:34: cache.directory', 'data', './data')])
  t.same(found(named('link/c'), ''), [shown('2:34: cache.directory', 'link/c', './data')])
  t.same(found(named('.'), ''), [shown('2:34: cache.directory', '.', './data')])
  t.same(found(named('data2'), ''), [])
  t.same(found('disk', ''), [])
  t.same(found('memory', ' directory: cache '), [])
})

t.test('a directory that can never be there is a problem of its key', async t => {
  const folder = t.testdir({ file: '' })
  const at = (cache: string) => () => parseConfig(`version: 1\ncache: ${cache}\n`, 'x', folder)
  t.throws(at('{ store: disk, directory: file }'), {
    message: /^x:2:34: cache\.directory: file is not a directory/,
  })
  t.throws(at('{ store: disk, directory: file/a }'), { message: /a part of its path is not a directory/ })
  t.doesNotThrow(at('{ store: disk, directory: none/a }'))
})

t.test('the password is one line of a file', async t => {
  const redis = (content: string, mode = 0o640): Loaded => {
    const folder = t.testdir({ pass: content })
    chmodSync(join(folder, 'pass'), mode)
    const yaml = 'version: 1\ncache: { store: redis, url: "redis://r", password_file: pass }\n'
    return parseConfig(yaml, 'x', folder)
  }
  for (const [content, password] of [
    ['secret', 'secret'],
    ['a:b c \u00e4\r\n', 'a:b c \u00e4'],
    ['\ufeffsecret\n', 'secret'],
  ] as const) {
    t.match(redis(content), { files: { cache: { password } }, warnings: [] })
  }
  for (const content of ['', '\n', 'sec\tret', 'secret\nother\n']) {
    t.throws(() => redis(content), {
      message: 'x:2:57: cache.password_file: pass is not one line with a password in UTF-8',
    })
  }
  t.match(redis('secret', 0o644), {
    warnings: [{ path: 'cache.password_file', message: /every user of this machine can read pass/ }],
  })
  t.throws(
    () =>
      parseConfig(
        'version: 1\ncache: { store: redis, url: "redis://r", password_file: no }',
        'x',
        t.testdir(),
      ),
    {
      message: /cache\.password_file: no: no such file/,
    },
  )
  t.equal(parseConfig('version: 1\ncache: memory\n').files.cache, undefined)
})

t.test('clients of Redis get the credentials in the URL', async t => {
  t.equal(redisUrlWithCredentials('redis://r:6379/0', undefined, undefined), 'redis://r:6379/0')
  t.equal(redisUrlWithCredentials('redis://r:6379/0', undefined, '$&'), 'redis://:%24%26@r:6379/0')
  t.equal(
    redisUrlWithCredentials('rediss://[::1]:1/2', 'me:@', 'a/b c'),
    'rediss://me%3A%40:a%2Fb%20c@[::1]:1/2',
  )
})

t.test('ca holds certificates', { skip: needs('openssl') }, async t => {
  const folder = t.testdir()
  const { certFile } = Authority.make(folder)
  const yaml = (ca: string) => `version: 1\ncache: { store: redis, url: "rediss://r", ca: ${ca} }\n`
  t.match(parseConfig(yaml(certFile), 'x', folder).files.cache, { ca: /BEGIN CERTIFICATE/ })
  t.throws(() => parseConfig(yaml('none.crt'), 'x', folder), { message: /cache\.ca: none\.crt/ })
})

t.test('what is put above the word of origins is a warning', async t => {
  const warnings = (cache: string) =>
    parseConfig(`version: 1\ncache: ${cache}\n`).warnings.map(
      ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
    )
  t.same(warnings('{ shared_by: client, rules: [{ hosts: ["*"], max_ttl: 1h }] }'), [])
  t.match(warnings('{ shared_by: everyone }'), [/^2:10 cache\.shared_by: every client is answered from /])
  t.match(warnings('{ rules: [{ hosts: [a.test], store: off }, { hosts: ["*"], min_ttl: 1h }] }'), [
    /^2:67 cache\.rules\[1\]\.min_ttl: overrides how long /,
  ])
})

t.test('editors are told of both forms', async t => {
  t.match(jsonSchema(), {
    properties: {
      cache: { anyOf: [{ enum: ['memory', 'disk'] }, { type: 'object', additionalProperties: false }] },
    },
  })
})
