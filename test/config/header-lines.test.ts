import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseHeaderLines } from '../../src/config/header-lines.js'
import { parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'

t.test('a name and a value a line; comments and empty lines are skipped', async t => {
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

t.test('says what is wrong in which line, and never what stands there', async t => {
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
    { line: 7, message: 'X stands there a second time' },
    { line: 8, message: 'the value of Y is empty, or holds what is not printable ASCII' },
    { line: 10, message: 'z stands there a second time' },
  ])
  t.same(parseHeaderLines('# nothing\n').faults, [{ line: 1, message: 'it holds no field' }])
})

t.test('a configuration names the file, which is read with it', async t => {
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
