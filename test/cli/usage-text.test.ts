import t from 'tap'
import { needlessValue, usageText, wrapHelp } from '../../src/cli/usage-text.js'

t.test('errors of the parser are worded for the user of the command line', async t => {
  const table: [message: string, line: string, text: string][] = [
    ['Unknown argument: nope', '--nope', 'there is no option --nope'],
    ['Unknown arguments: nope, x', '--nope -x', 'there is no option --nope'],
    ['Unknown argument: n', '-cn check', 'there is no option -n'],
    ['Unknown argument: n', 'check -- -n', 'check takes no further argument, found "n"'],
    ['Unknown argument: schemas', 'schemas', 'there is no command "schemas"; did you mean schema?'],
    [
      'Unknown argument: ./x',
      './x',
      'there is no command "./x"; a configuration file goes behind --config: npx sluice --config ./x',
    ],
    [
      'Unknown argument: s',
      'exec curl -s',
      'there is no option -s; those of the program go behind --: npx sluice exec [options] -- PROGRAM [ARGUMENTS]',
    ],
    ['Not enough arguments following: c', '-c', '-c needs a value'],
    ['Not enough non-option arguments: got 0, need at least 1', 'explain --json', 'explain needs a URL'],
    [
      'Invalid values:\n  Argument: log-format, Given: "xml", Choices: "json", "pretty"',
      '--log-format=xml',
      '--log-format takes json or pretty, found "xml"',
    ],
    [
      'Not enough non-option arguments: got 0, need at least 1',
      'explain -- -x',
      'explain needs a URL before --, found "-x" behind it',
    ],
    ['--config needs the name of a file', '--config=', '--config needs the name of a file'],
  ]
  for (const [message, line, text] of table)
    t.equal(usageText(message, { argv: line.split(' '), command: 'npx sluice' }), text)
})

t.test('a message shows a hundred characters of a word of the command line', async t => {
  const word = 'a'.repeat(100_000)
  const shown = `${'a'.repeat(100)}...`
  const line = (...argv: string[]) => ({ argv, command: 'sluice' })
  t.equal(usageText(`Unknown argument: ${word}`, line(word)), `there is no command "${shown}"`)
  t.equal(
    usageText(`found "${word}", without a port`, line(`--admin=${word}`)),
    `found "${shown}", without a port`,
  )
  const quotes = '"'.repeat(200)
  t.equal(usageText(`Unknown argument: ${quotes}`, line(quotes)).length, 125)
})

t.test('only an option that is given or not is told that it takes no value', async t => {
  t.equal(needlessValue(['health', '--ready=1']), '--ready takes no value, found "1"')
  t.equal(needlessValue(['health', '--ready=']), '--ready takes no value, found ""')
  for (const argv of [
    ['--ready'],
    ['--ready=true'],
    ['--json=false'],
    ['--admin=1'],
    ['exec', '--', '--json=1'],
  ])
    t.equal(needlessValue(argv), undefined)
})

t.test('help is wrapped at words, in the column of the description', async t => {
  const words = 'some words of a description '.repeat(8).trim()
  const lines = wrapHelp(`sluice\n  -c, --config  ${words}  [string]\n      --b       short`).split('\n')
  t.ok(lines.every(line => line.length <= 100))
  t.match(lines, [
    'sluice',
    /^ {2}-c, --config {2}some/,
    /^ {16}\w/,
    /^ {16}\w.* {2}\[string\]$/,
    '      --b       short',
  ])
  t.equal(lines.slice(1, -1).join(' ').replace(/ +/g, ' ').trim(), `-c, --config ${words} [string]`)
  t.equal(wrapHelp('a'.repeat(200)), 'a'.repeat(200), 'a word is never broken')
})
