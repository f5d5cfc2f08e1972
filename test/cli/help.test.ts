/** `--help` as users ask for it: behind whatever else they have typed. */
import t from 'tap'
import { installProgram, startProgram } from '../kit/processes/program.js'
import { codeBlocks, readSection } from '../kit/readmes.js'

const ASKED: readonly (readonly [args: string, says: readonly string[]])[] = [
  [
    '',
    [
      'run',
      'check',
      'explain',
      'test',
      'health',
      'rules',
      'exec',
      'cache',
      'schema',
      '--config',
      '--listen',
      '--admin',
      '--log-format',
    ],
  ],
  ['run', ['--config', '--listen', '--admin', '--log-format']],
  ['--listen 127.0.0.1:1', ['--listen', '--admin']],
  ['--admin 1 --listen x', ['--listen', '--admin']],
  ['--config nowhere.yaml', ['--config']],
  ['check', ['[file..]']],
  ['test', ['[cases..]', '--config', '--dns']],
  ['health', ['--admin', '--config', '--pid', '--ready']],
  ['explain', ['<url..>', '-c, --config', '--client', '--method', '--json']],
  ['explain --client nobody', ['--client']],
  ['rules', ['--client', '--group-subdomains']],
  ['exec', ['--config', '--client', '--log', '--isolate']],
  ['cache', ['<action>', '[url]', '"stats", "purge"', '--host', '--all', '--admin', '--config', '--json']],
  ['schema', ['schema']],
]

t.test('-h and -v are short for --help and --version', async t => {
  const program = await installProgram(t)
  for (const [short, long] of [
    [['-h'], ['--help']],
    [
      ['check', '-h'],
      ['check', '--help'],
    ],
    [['-v'], ['--version']],
  ] as const) {
    const [one, other] = [short, long].map(args => startProgram(t, [...program, ...args]))
    t.strictSame([await one?.exited, await other?.exited], [0, 0])
    t.ok(one?.stdout)
    t.equal(one?.stdout, other?.stdout, short.join(' '))
  }
})

t.test('--help lists the arguments of a command, whatever precedes it, and exits with 0', async t => {
  const program = await installProgram(t)
  for (const [args, says] of ASKED) {
    const given = [...args.split(' ').filter(word => word !== ''), '--help']
    const run = startProgram(t, [...program, ...given])
    const code = await run.exited
    t.strictSame([code, run.stderr], [0, ''], given.join(' '))
    for (const word of says) t.match(run.stdout, word, `${given.join(' ')}: ${word}`)
  }
})

t.test('the README shows the options that each command takes, and no others', async t => {
  const program = await installProgram(t)
  const help = async (...command: string[]) => {
    const run = startProgram(t, [...program, ...command, '--help'])
    await run.exited
    return run.stdout
  }
  const [commands = ''] = codeBlocks(readSection('src/cli/README.md', 'Commands'), '')
  const shown = new Map<string, Set<string>>()
  for (const [, name = '', rest = ''] of commands.matchAll(/^sluice \[?(\w+)\]?(.*)$/gm)) {
    const options = shown.get(name) ?? new Set()
    for (const [option] of rest.replace(/ -- .*/, '').matchAll(/--[a-z-]+/g)) options.add(option)
    shown.set(name, options)
  }
  const listed = (await help()).matchAll(/^ {2}([a-z]+)(?: [[<]\S+)* {2,}/gm)
  t.same(new Set(shown.keys()), new Set([...listed].map(([, name]) => name)))
  for (const [name, options] of shown) {
    const taken = [...(await help(name)).matchAll(/^ +(?:-\w, )?(--[a-z-]+) /gm)].map(([, option]) => option)
    t.same(
      [...options].sort(),
      taken.filter(option => option !== '--help' && option !== '--version').sort(),
      name,
    )
  }
})

t.test('the help of each command begins with the command, and no line of it ends within a word', async t => {
  const program = await installProgram(t)
  const names = ['run', 'check', 'explain', 'test', 'rules', 'exec', 'cache', 'health', 'schema']
  for (const args of [[], ...names.map(name => [name])]) {
    const shown = startProgram(t, [...program, ...args, '--help'])
    t.equal(await shown.exited, 0)
    const [first = '', ...lines] = shown.stdout.split('\n')
    t.match(
      first,
      args.length === 0 ? / \[command\] \[options\]$/ : new RegExp(`\\S ${args[0]} .*\\[options\\]$`),
    )
    t.ok(lines.every(line => line.length <= 100))
  }
  const run = startProgram(t, [...program, '--help'])
  await run.exited
  t.match(
    run.stdout,
    /--listen +address to serve clients on, .*; may be\s+repeated; beats\s+the\s+file\s+\[array\]\n/,
  )
})

t.test('an option that takes no value is told so when it has one', async t => {
  const program = await installProgram(t)
  let checked = 0
  for (const name of ['explain', 'test', 'exec', 'cache', 'health', 'schema']) {
    const help = startProgram(t, [...program, name, '--help'])
    await help.exited
    for (const [, option] of help.stdout.matchAll(/(--[a-z-]+) .*\[boolean\]/g)) {
      const run = startProgram(t, [...program, name, `${option}=1`])
      t.equal(await run.exited, 64, `${name} ${option}`)
      t.match(run.stderr, `sluice: ${option} takes no value, found "1"\n`)
      checked += 1
    }
  }
  t.ok(checked > 12, String(checked))
})
