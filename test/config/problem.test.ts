import t from 'tap'
import { ConfigError, formatPath, formatProblem, quoteKey } from '../../src/config/problem.js'

t.test('writes paths the way people do', t => {
  t.equal(formatPath([]), '')
  t.equal(formatPath(['rules', 'web', 'hosts', 0]), 'rules.web.hosts[0]')
  t.equal(formatPath(['clients', 2, 'name']), 'clients[2].name')
  t.equal(formatPath(['rules', 'a.b', 'hosts']), 'rules["a.b"].hosts')
  t.equal(formatPath(['']), '[""]')
  t.equal(quoteKey('header_bytes'), '`header_bytes`')
  t.equal(quoteKey('a`b'), '"a`b"')
  t.end()
})

t.test('puts one problem on one line, leaving out what does not apply', t => {
  const problem = { line: 3, column: 5, path: 'log.level', message: 'bad' }
  t.equal(formatProblem('f.yaml', problem), 'f.yaml:3:5: log.level: bad')
  t.equal(formatProblem('f.yaml', { ...problem, path: '' }), 'f.yaml:3:5: bad')
  t.equal(formatProblem('f.yaml', { ...problem, line: 0, column: 0, path: '' }), 'f.yaml: bad')
  t.end()
})

t.test('lets nothing from the file steer the terminal', t => {
  const message = 'found "\x1b[31m\r\n\x9b\u202e"'
  const line = formatProblem('f', { line: 1, column: 1, path: '', message })
  t.equal(line, 'f:1:1: found "\\u{1b}[31m\\u{d}\\u{a}\\u{9b}\\u{202e}"')
  t.end()
})

t.test('an error carries every problem, and says them', t => {
  const problems = [
    { line: 1, column: 1, path: 'a', message: 'one' },
    { line: 2, column: 1, path: 'b', message: 'two' },
  ]
  const error = new ConfigError('f', problems)
  t.equal(error.file, 'f')
  t.equal(error.problems, problems)
  t.equal(error.message, 'f:1:1: a: one\nf:2:1: b: two')
  t.end()
})
