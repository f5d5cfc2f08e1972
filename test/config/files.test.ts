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
