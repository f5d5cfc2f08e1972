/** The command line, as far as it ends by itself. */
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { main } from '../../src/cli/main.js'
import { fakeHost, sluice, sluiceOn, VERSION } from './fake-host.js'

async function usage(t: Test, argv: string[], line: string) {
  t.strictSame(
    await sluice(...argv),
    { code: 64, stdout: '', stderr: `sluice: ${line}\nTry sluice --help.\n` },
    argv.join(' '),
  )
}

const ADDRESS_TWICE =
  'there is no command "127.0.0.1:0"; a configuration file goes behind --config: sluice --config 127.0.0.1:0'

t.test('a word or an option that nothing knows is 64 and one clear line', async t => {
  const table: [string[], string][] = [
    [['--nope'], 'there is no option --nope'],
    [['--nope=x'], 'there is no option --nope'],
    [['nope'], 'there is no command "nope"'],
    [['chek', 'a.yaml'], 'there is no command "chek"; did you mean check?'],
    [
      ['my.yaml'],
      'there is no command "my.yaml"; a configuration file goes behind --config: sluice --config my.yaml',
    ],
    [['run', 'nope'], 'there is no command "nope"'],
    [['run', 'run'], 'there is no command "run"'],
    [['--', '--config'], 'there is no command "--config"'],
    [['-x', 'x'], 'there is no option -x'],
    [['--no-admin'], 'there is no option --no-admin'],
    [['--no-config'], 'there is no option --no-config'],
    [['--config.x', 'y'], 'there is no option --config.x'],
    [['--listen', '127.0.0.1:0', '127.0.0.1:0'], ADDRESS_TWICE],
    [['check', '--config', 'a', 'b'], 'there is no option --config'],
    [['schema', 'x'], 'schema takes no further argument, found "x"'],
    [['cache', 'stats', 'a', 'b'], 'cache takes no further argument, found "b"'],
    [['__proto__'], 'there is no command "__proto__"'],
    [['toString'], 'there is no command "toString"'],
  ]
  for (const [argv, line] of table) await usage(t, argv, line)
})

t.test('so is an option without its value, or given more than once where once is meant', async t => {
  for (const name of ['config', 'listen', 'admin', 'log-format']) {
    await usage(t, [`--${name}`], `--${name} needs a value`)
  }
  await usage(t, ['-c'], '-c needs a value')
  await usage(t, ['--config='], '--config needs the name of a file')
  await usage(t, ['check'], 'check needs the name of a FILE; - is standard input')
  await usage(t, ['test'], 'test needs the name of a FILE; - is standard input')
  await usage(t, ['explain'], 'explain needs a URL')
  await usage(t, ['cache'], 'cache needs stats or purge')
  await usage(t, ['-c', 'a', '--config', 'b'], '--config can be given once only')
  await usage(t, ['--config', 'a', '--config', 'b'], '--config can be given once only')
  await usage(t, ['--admin', '127.0.0.1:0', '--admin', '127.0.0.1:0'], '--admin can be given once only')
  await usage(t, ['--log-format', 'json', '--log-format', 'json'], '--log-format can be given once only')
})

t.test('so is a value that is not one', async t => {
  await usage(t, ['--log-format', 'xml'], '--log-format takes json or pretty, found "xml"')
  await usage(t, ['cache', 'drop'], 'cache takes stats or purge, found "drop"')
  const expected = 'expected an address such as "127.0.0.1:3128" or "[::1]:3128", found'
  const bad: [string, string][] = [
    ['3128', '"3128", without a port'],
    ['127.0.0.1', '"127.0.0.1", without a port'],
    ['127.0.0.1:65536', '"127.0.0.1:65536", with a port that is not 0 to 65535'],
    [':3128', '":3128", write 0.0.0.0:3128 for every IPv4 interface'],
    ['::1:3128', '"::1:3128", IPv6 goes in brackets'],
    ['example.com:3128', '"example.com:3128", whose host is neither an IP address nor localhost'],
    ['0177.0.0.1:3128', '"0177.0.0.1:3128", whose host is neither an IP address nor localhost'],
  ]
  for (const [address, found] of bad) {
    await usage(t, ['--listen', address], `${expected} ${found}`)
    await usage(t, ['run', '--listen', '127.0.0.1:0', '--listen', address], `${expected} ${found}`)
    await usage(t, ['--admin', address], `${expected} ${found}`)
  }
})

t.test('messages are in English in every locale, because programs read them', async t => {
  const { LC_ALL } = process.env
  process.env['LC_ALL'] = 'de_DE.UTF-8'
  t.teardown(() => {
    if (LC_ALL === undefined) delete process.env['LC_ALL']
    else process.env['LC_ALL'] = LC_ALL
  })
  await usage(t, ['--nope'], 'there is no option --nope')
})

t.test('a configuration that is not there, or wrong, is 78 with every problem', async t => {
  const directory = t.testdir({ 'bad.yaml': 'version: 1\nconect: {}\nlog: { level: loud }\n' })
  const [missing, bad] = [join(directory, 'missing.yaml'), join(directory, 'bad.yaml')]
  for (const argv of [
    ['--config', missing],
    ['-c', missing],
    ['run', '--config', missing],
    ['check', missing],
  ]) {
    t.strictSame(await sluice(...argv), { code: 78, stdout: '', stderr: `${missing}: no such file\n` })
  }
  for (const argv of [[`--config=${bad}`], ['check', bad]]) {
    t.strictSame(await sluice(...argv), {
      code: 78,
      stdout: '',
      stderr: [
        `${bad}:2:1: conect: unknown key \`conect\`; did you mean \`connect\`?`,
        `${bad}:3:15: log.level: expected trace, debug, info, warn, error or silent, found "loud"`,
        '',
      ].join('\n'),
    })
  }
})

t.test('exec takes only the words after -- as the program', async t => {
  const hint = 'the program goes behind --: sluice exec [options] -- PROGRAM [ARGUMENTS]'
  const own = 'those of the program go behind --: sluice exec [options] -- PROGRAM [ARGUMENTS]'
  const program = ['--', 'echo', '--config']
  const table: [string[], string][] = [
    [[], hint],
    [['--'], hint],
    [['echo', 'x'], hint],
    [['echo', ...program], hint],
    [['--nope', ...program], `there is no option --nope; ${own}`],
    [['curl', '-s', 'http://a.test/'], `there is no option -s; ${own}`],
    [['--config', ...program], '--config needs a value'],
    [['-c', ...program], '-c needs a value'],
    [['--config=', ...program], '--config needs a value'],
    [['--log', 'a', '--log', 'b', ...program], '--log can be given once only'],
  ]
  for (const [argv, line] of table) await usage(t, ['exec', ...argv], line)
})

t.test('a program without a name is one that does not exist', async t => {
  const stderr = 'sluice: the name of the program is empty\n'
  t.strictSame(await sluice('exec', '--', ''), { code: 127, stdout: '', stderr })
})

t.test('what keeps the program of exec from being run is 64, 73 or 78', async t => {
  const file = join(t.testdir({ 'f.yaml': 'version: 1\nconect: {}\n' }), 'f.yaml')
  const table: [string[], number, string][] = [
    [['--client', 'ci'], 64, 'sluice: there is no client "ci"; clients has private\n'],
    [['--log', join(file, 'x')], 73, `sluice: ${join(file, 'x')}: cannot be written (ENOTDIR)\n`],
    [['--config', file], 78, `${file}:2:1: conect: unknown key \`conect\`; did you mean \`connect\`?\n`],
  ]
  for (const [argv, code, stderr] of table) {
    const result = await sluice('exec', ...argv, '--', '/no/such/program')
    t.strictSame(result, { code, stdout: '', stderr })
  }
})

t.test('an address that is taken is 69 and named, with its key and option', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const bound = server.address()
  const taken = `127.0.0.1:${typeof bound === 'object' && bound !== null ? bound.port : 0}`
  const port = taken.slice(taken.indexOf(':') + 1)
  for (const [key, ...argv] of [
    ['listen.proxy (--listen)', '--listen', taken, '--admin', '127.0.0.1:0'],
    ['listen.proxy (--listen)', '--listen', '127.0.0.1:0', '--listen', taken, '--admin', '127.0.0.1:0'],
    ['listen.admin (--admin)', '--listen', '127.0.0.1:0', '--admin', taken],
    ['listen.admin (--admin)', '--listen', '127.0.0.1:0', '--admin', `localhost:${port}`],
  ] as const) {
    t.strictSame(await sluice(...argv), {
      code: 69,
      stdout: '',
      stderr: `sluice: cannot listen at ${key}: listen EADDRINUSE: address already in use ${taken}\n`,
    })
  }
})

t.test('a command that succeeds is 0', async t => {
  const { code, stdout, stderr } = await sluice('schema')
  t.strictSame([code, stderr], [0, ''])
  t.match(JSON.parse(stdout), { type: 'object' })
})

t.test('a fault of the program itself is 70, with where it happened', async t => {
  const { host } = fakeHost({
    io: {
      stdout: () => {
        throw new Error('broken')
      },
      stderr: text => {
        t.match(text, /^sluice: Error: broken\n {4}at .*main\.test/)
      },
      color: false,
    },
  })
  t.equal(await main(['schema'], VERSION, host), 70)
})

t.test('every hint names the command that the program was started with', async t => {
  const command = 'node dist/bin.js'
  t.equal((await sluiceOn({ command }, '--nope')).stderr.split('\n')[1], `Try ${command} --help.`)
  t.match((await sluiceOn({ command }, 'a.yaml')).stderr, `${command} --config a.yaml`)
  t.match((await sluiceOn({ command }, 'exec', 'ls')).stderr, `: ${command} exec [options] -- PROGRAM`)
})

t.test('npm start --config FILE, of which npm keeps the option, is 64 with the correct command', async t => {
  const npm = { npm_lifecycle_event: 'start', npm_package_name: 'sluice' }
  const started = (own: Record<string, string>, ...argv: string[]) =>
    sluiceOn({ command: 'npm start --', environment: { ...npm, ...own } }, ...argv)
  const said = (line: string) => ({
    code: 64,
    stdout: '',
    stderr: `sluice: npm has kept an option for itself; those of this program go behind --: npm start -- ${line}\n`,
  })
  t.strictSame(await started({ npm_config_config: 'true' }, 'my.yaml'), said('--config my.yaml'))
  t.strictSame(await started({ npm_config_config: 'my file.yaml' }), said("--config 'my file.yaml'"))
  t.match(await started({}, 'schema'), { code: 0 })
})
