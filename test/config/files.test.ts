import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Loaded, parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'
import { Authority } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'

const YAML = 'version: 1\nparent: { url: "http://p", basic_file: pass }\n'

/** What is loaded with this file of credentials, or the messages of what is wrong. */
function loaded(t: Test, content: string, mode = 0o640): Loaded | string[] {
  const folder = t.testdir({ pass: content })
  chmodSync(join(folder, 'pass'), mode)
  try {
    return parseConfig(YAML, 'sluice.yaml', folder)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, message }) => `${path}: ${message}`)
  }
}

t.test('the credentials are one line of user:password (RFC 7617 §2)', async t => {
  for (const [content, credentials] of [
    ['me:secret', 'me:secret'],
    ['me:secret\n', 'me:secret'],
    ['me:secret\r\n', 'me:secret'],
    ['\ufeffme: s:p \u00e4\n', 'me: s:p \u00e4'],
    ['me:', 'me:'],
  ] as const) {
    const value = `Basic ${Buffer.from(credentials).toString('base64')}`
    t.match(loaded(t, content), { files: { parent: { authorization: value } }, warnings: [] })
  }
})

t.test('anything else is a fault that shows nothing of it', async t => {
  for (const content of [
    '',
    '\n',
    'secret',
    ':secret',
    'me:secret\nyou:secret\n',
    'me:sec\tret',
    '#\nme:secret',
  ]) {
    t.same(loaded(t, content), ['parent.basic_file: pass is not one line of user:password in UTF-8'])
  }
  t.match(
    (() => {
      try {
        return parseConfig(YAML, 'x', t.testdir())
      } catch (error) {
        return error
      }
    })(),
    { problems: [{ path: 'parent.basic_file', message: /^pass: no such file/ }] },
  )
})

t.test('a file that everybody may read is a warning', async t => {
  t.match(loaded(t, 'me:secret', 0o644), {
    warnings: [{ path: 'parent.basic_file', message: /every user of this machine can read pass/ }],
  })
})

t.test('ca holds certificates', { skip: needs('openssl') }, async t => {
  const folder = t.testdir()
  const { certFile } = Authority.make(folder)
  const yaml = (ca: string) => `version: 1\nparent: { url: "https://p", ca: ${ca} }\n`
  t.match(parseConfig(yaml(certFile), 'x', folder).files.parent, { ca: /BEGIN CERTIFICATE/ })
  t.throws(() => parseConfig(yaml('none.crt'), 'x', folder), { message: /parent\.ca: none\.crt/ })
})

t.test(
  'hosts_file is one file or several, whose problems are told by file and line, all at once',
  async t => {
    const folder = t.testdir({
      good: 'a.example\n',
      bad: '\na*.b.example\nok.example\nhttps://c.example/\n',
      empty: '# nothing yet\n',
    })
    const yaml = 'version: 1\nrules:\n  web: { hosts_file: [good, bad, none] }\ndeny: { hosts_file: empty }\n'
    const expected = 'expected a host name, "*.example.com", "*", an IP address or a CIDR'
    try {
      parseConfig(yaml, 'sluice.yaml', folder)
      t.fail('it is loaded')
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      t.match(error.message.split('\n'), [
        `sluice.yaml:3:29: rules.web.hosts_file[1]: bad:2: ${expected}, found "a*.b.example", where * is not the whole first label`,
        `sluice.yaml:3:29: rules.web.hosts_file[1]: bad:4: ${expected}, found "https://c.example/", a URL; write only its host`,
        `sluice.yaml:3:34: rules.web.hosts_file[2]: none: no such file; a relative path starts at the configuration file, this is ${folder}/none`,
        'sluice.yaml:4:21: deny.hosts_file: empty:1: it lists no host, as a file does that was cut off; to list none, leave hosts_file out',
      ])
      t.equal(error.problems.length, 4)
    }
  },
)
