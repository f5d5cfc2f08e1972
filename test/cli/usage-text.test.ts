import t from 'tap'
import { usageText } from '../../src/cli/usage-text.js'

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
    ['--config needs the name of a file', '--config=', '--config needs the name of a file'],
  ]
  for (const [message, line, text] of table)
    t.equal(usageText(message, { argv: line.split(' '), command: 'npx sluice' }), text)
})
