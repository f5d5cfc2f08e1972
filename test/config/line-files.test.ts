import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { compareSync, hashSync } from 'bcryptjs'
import t from 'tap'
import { parseHeaderLines, parseHostLines, parseHtpasswd, textLines } from '../../src/config/line-files.js'
import { parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'
import { serializeHostPattern } from '../../src/net/host-pattern.js'

t.test('gives each line that holds an entry, with its number', async t => {
  t.same(textLines(''), [])
  t.same(textLines('a:b'), [{ number: 1, text: 'a:b' }])
  t.same(textLines('\ufeff# who\r\n\r\na:b \r\n \t\n  c\n'), [
    { number: 3, text: 'a:b ' },
    { number: 5, text: '  c' },
  ])
  t.same(textLines('a#\rb\n #c'), [
    { number: 1, text: 'a#\rb' },
    { number: 2, text: ' #c' },
  ])
})

const SALT = 'abcdefghijklmnopqrstuu'
const TAIL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcde'
const HASH = `$2y$05$${SALT}${TAIL}`

/** The only fault of a text, as `line: message`. */
function faultOf(text: string): string {
  const { faults } = parseHtpasswd(text)
  return faults.map(({ line, message }) => `${line}: ${message}`).join('; ')
}

const NOT_BCRYPT = 'the hash is not bcrypt; make it with `htpasswd -B`'

t.test(
  'an htpasswd file has a name and a bcrypt hash a line; comments and empty lines are skipped',
  async t => {
    const other = HASH.replace('$2y$05$', '$2b$12$')
    for (const [text, users] of [
      [`ann:${HASH}`, { ann: HASH }],
      [`ann:${HASH}\nbob:${other}\n`, { ann: HASH, bob: other }],
      [`ann:${HASH}\r\nbob:${other}\r\n`, { ann: HASH, bob: other }],
      [`# team\n\nann:${HASH}\n  \n#bob:${other}\n`, { ann: HASH }],
      [`\ufeffann:${HASH}\n`, { ann: HASH }],
      [`ann b@example:${HASH}`, { 'ann b@example': HASH }],
      [`übel:${HASH}`, { übel: HASH }],
      [`Ann:${HASH}\nann:${other}`, { Ann: HASH, ann: other }],
      [`__proto__:${HASH}`, JSON.parse(`{ "__proto__": "${HASH}" }`)],
    ] as const) {
      const parsed = parseHtpasswd(text)
      t.same(parsed.faults, [], text)
      t.strictSame([...parsed.users], Object.entries(users), text)
    }
  },
)

t.test('says what is wrong in which line of an htpasswd file, and reads on', async t => {
  const { users, faults } = parseHtpasswd(`ann:${HASH}\nbroken\nbob:${HASH}\neve:plain\n`)
  t.same([...users.keys()], ['ann', 'bob'])
  t.same(faults, [
    { line: 2, message: 'expected a name, a colon and a bcrypt hash' },
    { line: 4, message: NOT_BCRYPT },
  ])
})

t.test('a name is not empty, of readable characters, and stands there once', async t => {
  for (const [text, fault] of [
    ['ann', 'expected a name, a colon and a bcrypt hash'],
    [`:${HASH}`, 'expected a name, a colon and a bcrypt hash'],
    [`a\tb:${HASH}`, 'the name holds a control character, or is not UTF-8'],
    [`a\0:${HASH}`, 'the name holds a control character, or is not UTF-8'],
    [`a\x7f:${HASH}`, 'the name holds a control character, or is not UTF-8'],
    [`a\ufffd:${HASH}`, 'the name holds a control character, or is not UTF-8'],
    [` ann:${HASH}`, 'the name has white space around it'],
    [`ann :${HASH}`, 'the name has white space around it'],
  ] as const) {
    t.equal(faultOf(text), `1: ${fault}`, JSON.stringify(text))
  }
  t.equal(faultOf(`ann:${HASH}\nann:${HASH}`), '2: the name "ann" appears a second time')
})

t.test('a file that names nobody is a fault', async t => {
  for (const text of ['', '\n', '# nobody\n', '\ufeff']) t.equal(faultOf(text), '1: it names nobody')
})

t.test('no other hash than bcrypt is taken, and the message does not repeat it', async t => {
  for (const hash of [
    '',
    'secret',
    '$apr1$abcdefgh$abcdefghijklmnopqrstu.',
    '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=',
    '$5$rounds=5000$salt$hash',
    HASH.replace('$2y$', '$2x$'),
    HASH.replace('$2y$', '$2$'),
    HASH.replace('$2y$', '$2Y$'),
    HASH.replace('05', '5'),
    HASH.replace('05', '005'),
    HASH.slice(0, -1),
    `${HASH}.`,
    `${HASH} `,
    ` ${HASH}`,
    `${HASH}:more`,
    HASH.replace('ABC', 'A*C'),
  ]) {
    t.equal(faultOf(`ann:${hash}`), `1: ${NOT_BCRYPT}`, hash)
  }
})

t.test('bits that no bcrypt sets make a hash that nothing matches', async t => {
  const real = hashSync('x', 4)
  const characters = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
  for (const [index, step] of [
    [28, 16],
    [59, 4],
  ] as const) {
    for (let i = 0; i < 64; i++) {
      const hash = real.slice(0, index) + characters[i] + real.slice(index + 1)
      t.equal(faultOf(`ann:${hash}`), i % step === 0 ? '' : `1: ${NOT_BCRYPT}`, hash)
      if (hash === real) t.ok(compareSync('x', hash))
    }
  }
})

t.test('the cost of a hash is from 4 to 15', async t => {
  for (const [cost, ok] of [
    ['00', false],
    ['03', false],
    ['04', true],
    ['15', true],
    ['16', false],
    ['31', false],
    ['99', false],
  ] as const) {
    const fault = `1: the cost of the hash is ${Number(cost)}, expected 4 to 15`
    t.equal(faultOf(`ann:${HASH.replace('05', cost)}`), ok ? '' : fault)
  }
})

t.test(
  'an htpasswd file is read with the configuration, from the folder that has it; faults are those of the key',
  async t => {
    const folder = t.testdir({ users: `ann:${HASH}\n`, broken: `# team\nann:plain\n` })
    const yaml = (file: string) =>
      `version: 1\nclients:\n  - { name: a, basic: { htpasswd_file: ${file} } }\n`
    const { files } = parseConfig(yaml('users'), 'sluice.yaml', folder)
    t.same(
      [...files.htpasswd].map(([name, users]) => [name, [...users]]),
      [['users', [['ann', HASH]]]],
    )
    const problem = (file: string) => {
      try {
        parseConfig(yaml(file), 'sluice.yaml', folder)
        return ''
      } catch (error) {
        return String(error)
      }
    }
    const place = 'ConfigError: sluice.yaml:3:40: clients[0].basic.htpasswd_file: '
    t.equal(problem('broken'), `${place}broken:2: ${NOT_BCRYPT}`)
    t.match(problem('missing'), `${place}missing: `)
  },
)

t.test('all lines with a problem are told at once, and of a file of another kind a hundred', async t => {
  const problems = (lines: string[]): string[] => {
    const folder = t.testdir({ users: lines.join('\n') })
    const yaml = 'version: 1\nclients:\n  - { name: a, basic: { htpasswd_file: users } }\n'
    try {
      parseConfig(yaml, 'f', folder)
      return []
    } catch (error) {
      return error instanceof ConfigError ? error.problems.map(({ message }) => message) : [String(error)]
    }
  }
  t.same(problems(['ann:plain', `bob:${HASH}`, 'carl']), [
    `users:1: ${NOT_BCRYPT}`,
    'users:3: expected a name, a colon and a bcrypt hash',
  ])
  const many = problems(Array.from({ length: 250 }, () => 'nobody'))
  t.equal(many.length, 101)
  t.equal(many.at(-1), 'users: 150 more lines have a problem')
})

t.test('a file of fields has a name and a value a line; comments and empty lines are skipped', async t => {
  for (const [text, headers] of [
    ['Authorization: Bearer a:b==', { Authorization: 'Bearer a:b==' }],
    ['\ufeff# for the collector\r\n\r\nX-Key:k\r\nx-tenant:\t t 1 \r\n', { 'X-Key': 'k', 'x-tenant': 't 1' }],
    ['__proto__: x', JSON.parse('{ "__proto__": "x" }')],
  ] as const) {
    const parsed = parseHeaderLines(text)
    t.same(parsed.faults, [], text)
    t.strictSame(Object.entries(parsed.headers), Object.entries(headers), text)
  }
})

t.test('says what is wrong in which line of a file of fields, and never repeats the line', async t => {
  const wrong = [
    'Bearer secret',
    ': secret',
    'A B: secret',
    'Content-Length: 5',
    'HOST: secret',
    'X: secret\0',
    'X: sécret',
    'Y:',
    'Z: 1',
    'z: secret',
  ]
  const { headers, faults } = parseHeaderLines(wrong.join('\n'))
  t.same({ ...headers }, { Z: '1' })
  t.same(faults, [
    { line: 1, message: 'expected a field name, a colon and a value' },
    { line: 2, message: 'expected a field name, a colon and a value' },
    { line: 3, message: 'expected a field name, a colon and a value' },
    { line: 4, message: 'Content-Length is written by Sluice itself' },
    { line: 5, message: 'HOST is written by Sluice itself' },
    { line: 6, message: 'the value of X is empty, or holds what is not printable ASCII' },
    { line: 7, message: 'X appears a second time' },
    { line: 8, message: 'the value of Y is empty, or holds what is not printable ASCII' },
    { line: 10, message: 'z appears a second time' },
  ])
  t.same(parseHeaderLines('# nothing\n').faults, [{ line: 1, message: 'it holds no field' }])
})

t.test('a file of fields is read with the configuration', async t => {
  const folder = t.testdir({ good: 'Authorization: Bearer abc\n', bad: 'Bearer abc\n' })
  const read = (file: string) =>
    parseConfig(
      `version: 1\ntracing: { otlp: "http://c.test:4318/v1/traces", headers_file: ${file} }`,
      'sluice.yaml',
      folder,
    )
  const problemsIn = (file: string) => {
    try {
      return read(file).warnings
    } catch (error) {
      return error instanceof ConfigError ? error.problems : []
    }
  }
  chmodSync(join(folder, 'good'), 0o600)
  const { files, warnings } = read('good')
  t.same({ ...files.tracingHeaders }, { Authorization: 'Bearer abc' })
  t.same(warnings, [])
  chmodSync(join(folder, 'good'), 0o644)
  t.match(read('good').warnings, [{ path: 'tracing.headers_file', message: 'every user of this machine' }])
  t.match(problemsIn('bad'), [
    { line: 2, path: 'tracing.headers_file', message: 'bad:1: expected a field name' },
  ])
  t.match(problemsIn('none'), [{ path: 'tracing.headers_file', message: 'none: ' }])
  t.same(parseConfig('version: 1').files.tracingHeaders, {})
})

t.test('a list of hosts has a pattern a line, comments and blank lines', async t => {
  const text =
    '\ufeff# allowed\r\nexample.com\r\n\n  *.Example.org  # all below\n\t# indented\n10.0.0.0/8\n"quoted"\n'
  const { list, faults } = parseHostLines(text.replace('"quoted"\n', '[::1]'), 'hosts.txt')
  t.same(faults, [])
  t.same(list.patterns.map(serializeHostPattern), ['example.com', '*.example.org', '10.0.0.0/8', '::1'])
  t.same(list.lines, [2, 4, 6, 7])
  t.equal(list.file, 'hosts.txt')
})

t.test('what is wrong in a list of hosts is told for each line', async t => {
  const faults = (text: string) =>
    parseHostLines(text, 'f').faults.map(({ line, message }) => `${line}: ${message}`)
  t.match(
    faults('a.b\nfoo*.example.com\nexample.com:443\n0.0.0.0 ads.example\na.b c.d\n\ufffd.example\na#b\n'),
    [
      /^2: expected a host name, .*found "foo\*\.example\.com", where \* is not the whole first label: it would match "fooother\.example\.com"/,
      /^3: .*found "example\.com:443", with a port; leave it out$/,
      '4: expected one host, found several words; write "ads.example" alone',
      '5: expected one host, found several words; write each on a line of its own',
      /^6: expected a host name/,
      /^7: expected a host name/,
    ],
  )
  for (const empty of ['', '\n\n', '# none yet\n']) {
    t.same(faults(empty), [
      '1: it lists no host, as a file does that was cut off; to list none, leave hosts_file out',
    ])
  }
})

t.test('a list has a million hosts, and no more', async t => {
  const { list, faults } = parseHostLines('a\n'.repeat(1_000_001), 'f')
  t.equal(list.patterns.length, 1_000_000)
  t.same(faults, [{ line: 1_000_001, message: 'more than 1000000 hosts; divide the file' }])
})

t.test('a message shows a hundred characters of a line', async t => {
  const { faults } = parseHostLines(`-${'a'.repeat(500)}\n`, 'f')
  t.match(faults, [{ message: /found "-a{99}\.\.\."/ }])
})

t.test('a message repeats of a line only what may have been meant as a host', async t => {
  const key = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7xyzABCDEFGH1'
  for (const line of [
    'root:$6$SALT$abc:19000:0:99999:7:::',
    'PATH=/usr/bin',
    'DB_PASSWORD=hunter2',
    'me:hunter2',
    'hunter2/secret',
    'hunter2 hunter3',
    '10.0.0.1 hunter2',
    '-----BEGIN PRIVATE KEY-----',
    `${key}+/=`,
    key,
    `-${key}`,
    `https://me:hunter2@example.com/`,
    'a.example?token=hunter2',
    '"hunter2"',
    '^hunter2$',
    'hunter2\0secret',
    'a.example#hunter2',
  ]) {
    const { faults } = parseHostLines(`${line}\n`, 'f')
    t.equal(faults.length, 1, line)
    t.notMatch(faults[0]?.message, /found "|hunter|SALT|MII|PRIVATE|PATH/, line)
  }
  const message = (line: string) => parseHostLines(`${line}\n`, 'f').faults[0]?.message
  t.match(message('example.com#x'), /found a # behind other characters; a comment begins after a space$/)
  t.match(message('a\0.\0b\0'), /found a NUL character, as in a file in UTF-16; write it in UTF-8$/)
  t.match(message('https://hooks.example/T0/hunter2'), /found "https:\/\/hooks\.example\/\.\.\.", a URL/)
  t.match(message('a.example/hunter2'), /found "a\.example\/\.\.\.", with a path.*write "a\.example"$/)
  t.match(message('10.0.0.0/99'), /10\.0\.0\.0\/99/)
})

t.test('a list of hosts in another encoding than UTF-8 is told as one', async t => {
  const folder = t.testdir({
    latin1: Buffer.from('a.example\ncaf\u00e9.example\n', 'latin1'),
    utf16: Buffer.from('\ufeffa.example\nb.example\n', 'utf16le'),
  })
  const yaml = 'version: 1\nrules: { a: { hosts_file: [latin1, utf16] } }'
  try {
    parseConfig(yaml, 'sluice.yaml', folder)
    t.fail('no problem was found')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    t.same(
      error.problems.map(({ message }) => message),
      ['latin1:2: expected UTF-8, found other bytes', 'utf16:1: expected UTF-8, found other bytes'],
    )
  }
})
