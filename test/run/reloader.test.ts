/** When a configuration is read again, and the result: with files, timers and a proxy of the test's own. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Reloader } from '../../src/run/reloader.js'
import type { ReloadState } from '../../src/observe/worker-status.js'
import { type Loaded, loadConfig, parseConfig } from '../../src/config/load.js'
import { ConfigSources } from '../../src/config/file-reader.js'
import { createLogger } from '../../src/observe/log.js'
import type { Reloaded } from '../../src/run/proxy.js'
import { ManualSchedule } from '../kit/fakes/manual-schedule.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { until } from '../kit/until.js'

const HASH = '$2y$04$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde'
const FIRST = 'version: 1\nmode: observe\n'
const SECOND = 'version: 1\nmode: enforce\nvia: second\n'

interface World {
  /** The applied configurations, by hash, including one in progress. */
  readonly applied: Loaded[]
  readonly events: Record<string, unknown>[]
  readonly states: ReloadState[]
  readonly reloader: Reloader
  readonly timers: ManualSchedule
  /** The watched files, only their names; undefined when none are watched. */
  watched(): string[] | undefined
  write(name: string, text: string): void
  remove(name: string): void
  /** Waits until everything that needs no timer has happened. */
  rest(): Promise<void>
  apply: (loaded: Loaded) => Promise<Reloaded>
}

async function world(t: Test, files: Record<string, string> = { 'a.yaml': FIRST }): Promise<World> {
  const folder = t.testdir(files)
  const file = join(folder, 'a.yaml')
  const timers = new ManualSchedule()
  const events: Record<string, unknown>[] = []
  const applied: Loaded[] = []
  const states: ReloadState[] = []
  let watched: readonly string[] = []
  let steps = 0
  const sources = new ConfigSources()
  const reloader: Reloader = new Reloader(
    {
      file,
      load: async read => {
        steps += 1
        try {
          return await loadConfig(file, read, { variables: { DB_PASSWORD: 'hunter2secret' } })
        } finally {
          steps += 1
        }
      },
      apply: async loaded => {
        applied.push(loaded)
        return await made.apply(loaded)
      },
      warn: loaded => events.push({ event: 'warned', hash: loaded.hash }),
      watch: {
        watch: paths => {
          watched = paths
        },
        close: () => {
          watched = []
        },
      },
      logger: createLogger('info', { write: line => events.push(JSON.parse(line)) }),
      onReload: state => states.push(state),
      wallClock: () => 1234,
      schedule: timers.schedule,
    },
    await loadConfig(file, sources),
    sources,
  )
  t.teardown(() => reloader.close())
  const made: World = {
    applied,
    events,
    states,
    reloader,
    timers,
    watched: () => (watched.length === 0 ? undefined : watched.map(path => path.slice(folder.length + 1))),
    write: (name, text) => writeFileSync(join(folder, name), text),
    remove: name => rmSync(join(folder, name)),
    rest: async () => {
      // A file is read in another thread, so that turns of the loop would not suffice.
      await until('no file to be read', async () => (await untilStable(() => steps)) % 2 === 0)
      await untilStable(() => events.length)
    },
    apply: async () => ({ needsRestart: [], closedTunnels: 0 }),
  }
  return made
}

t.test('a new content is applied once, logged and counted; an unchanged one is not', async t => {
  const { reloader, applied, events, states, write, rest } = await world(t)
  reloader.request('change')
  await rest()
  t.same([applied, events, states], [[], [], []])
  write('a.yaml', SECOND)
  reloader.request('change')
  await rest()
  t.equal(applied[0]?.config.via, 'second')
  const hash = applied[0]?.hash
  t.match(events, [
    {
      event: 'config_reloaded',
      level: 'info',
      config_hash: hash,
      changed: ['mode', 'via'],
      changed_files: [],
      closed_tunnels: 0,
      needs_restart: [],
    },
    { event: 'warned', hash },
  ])
  t.strictSame(states, [{ result: 'applied', timeMs: 1234, hash, problems: [] }])
  reloader.request('change')
  await rest()
  t.equal(applied.length, 1)
  t.equal(events.length, 2)
})

t.test('a signal is always answered', async t => {
  const { reloader, applied, events, states, write, rest } = await world(t)
  reloader.request('signal')
  await rest()
  t.match(events, [{ event: 'config_unchanged', level: 'info', config_hash: /^[0-9a-f]{12}$/ }])
  write('a.yaml', 'version: 2\n')
  for (const count of [1, 2]) {
    reloader.request('signal')
    await rest()
    t.equal(states.length, count, 'at once, and each time')
  }
  t.match(events.slice(1), [{ event: 'config_rejected' }, { event: 'config_rejected' }])
  t.same(applied, [])
})

t.test(
  'an invalid configuration changes nothing and is reported with positions, after a second reading',
  async t => {
    const { reloader, applied, events, states, write, rest, timers, watched } = await world(t)
    const { hash } = parseConfig(FIRST)
    write('a.yaml', 'version: 1\nmode: of\nvai: x\n')
    reloader.request('change')
    await rest()
    t.same(events, [], 'it may be half written')
    t.same(timers.running, [1000])
    reloader.request('change')
    await rest()
    t.same([events.length, timers.running], [0, [1000]], 'the same again is no reason to hurry')
    timers.fire()
    await rest()
    t.match(events, [{ event: 'config_rejected', level: 'error', config_hash: hash }])
    const problems = events[0]?.['problems'] as string[]
    t.match(problems, [/a\.yaml:2:7: mode: expected /, /a\.yaml:3:1: vai: /])
    t.strictSame(states, [{ result: 'rejected', timeMs: 1234, hash, problems }])
    t.same(watched(), ['a.yaml'])
    reloader.request('change')
    await rest()
    t.equal(events.length, 1, 'once')
    write('a.yaml', FIRST)
    reloader.request('change')
    await rest()
    t.match(
      events[1],
      { event: 'config_reloaded', config_hash: hash, changed: [] },
      'also when it is as before',
    )
    t.match(states.at(-1), { result: 'applied' })
    t.equal(applied.length, 1)
  },
)

t.test('a file that is half written, empty or missing for a moment is not rejected', async t => {
  for (const broken of ['version: 1\nrules: { a: { ho', '', undefined]) {
    const { reloader, applied, events, write, remove, rest, timers } = await world(t)
    if (broken === undefined) remove('a.yaml')
    else write('a.yaml', broken)
    reloader.request('change')
    await rest()
    write('a.yaml', SECOND)
    timers.fire()
    await rest()
    t.equal(applied.length, 1, broken ?? 'gone')
    t.match(events, [{ event: 'config_reloaded' }, { event: 'warned' }])
    t.same(timers.running, [])
  }
})

t.test('a change right before the second reading has none', async t => {
  const { reloader, applied, events, write, rest, timers } = await world(t)
  write('a.yaml', '')
  reloader.request('change')
  await rest()
  write('a.yaml', FIRST)
  reloader.request('change')
  await rest()
  t.same([timers.running, applied, events], [[], [], []])
})

t.test('a file that remains missing is reported, and the current configuration stays', async t => {
  const { reloader, events, remove, rest, timers, watched } = await world(t)
  remove('a.yaml')
  reloader.request('change')
  await rest()
  timers.fire()
  await rest()
  t.match(events, [{ event: 'config_rejected', problems: [/a\.yaml: no such file$/] }])
  t.notOk('err' in (events[0] ?? {}))
  t.same(watched(), ['a.yaml'])
})

t.test('files named by the configuration count, and are watched', async t => {
  const yaml = 'version: 1\nclients: [{ name: a, basic: { htpasswd_file: users } }]\n'
  const { reloader, applied, events, write, rest, watched, timers } = await world(t, {
    'a.yaml': yaml,
    users: `ann:${HASH}\n`,
    'other-users': `bob:${HASH}\n`,
  })
  t.same(watched(), ['a.yaml', 'users'])
  write('users', `bob:${HASH}\n`)
  reloader.request('change')
  await rest()
  t.same([...(applied[0]?.files.htpasswd.get('users')?.keys() ?? [])], ['bob'])
  t.match(events[0], { event: 'config_reloaded', changed: [], changed_files: [/\/users$/] })
  t.equal(events[0]?.['config_hash'], applied[0]?.hash)
  t.notMatch(JSON.stringify(events), /\$2y/)
  write('users', 'bob:password\n')
  reloader.request('change')
  await rest()
  timers.fire()
  await rest()
  t.match(events[2], { event: 'config_rejected', problems: [/a\.yaml:2:.*users:1: the hash is not bcrypt/] })
  t.same(watched(), ['a.yaml', 'users'])
  write('a.yaml', yaml.replace('users', 'more-users'))
  reloader.request('change')
  await rest()
  t.same(watched(), ['a.yaml', 'users', 'more-users'], 'one that is missing, too: it may come')
  write('a.yaml', yaml.replace('users', 'other-users'))
  reloader.request('change')
  await rest()
  t.match(events[3], { event: 'config_reloaded', changed: ['clients'], changed_files: [/\/other-users$/] })
  t.same(watched(), ['a.yaml', 'other-users'])
})

t.test('two reloads never run at once, and requests meanwhile cause one more', async t => {
  const made = await world(t)
  const { reloader, applied, events, write, rest } = made
  let finish = (): void => {}
  made.apply = () =>
    new Promise(resolve => {
      finish = () => resolve({ needsRestart: [], closedTunnels: 3 })
    })
  write('a.yaml', SECOND)
  reloader.request('change')
  await rest()
  t.equal(applied.length, 1)
  for (const via of ['third', 'fourth']) {
    write('a.yaml', `version: 1\nvia: ${via}\n`)
    for (let i = 0; i < 10; i++) reloader.request('change')
    reloader.request('signal')
    reloader.request('change')
    await rest()
  }
  t.equal(applied.length, 1)
  finish()
  await rest()
  t.same(
    applied.map(({ config }) => config.via),
    ['second', 'fourth'],
  )
  finish()
  await rest()
  t.match(events, [
    { event: 'config_reloaded', closed_tunnels: 3 },
    { event: 'warned' },
    { event: 'config_reloaded', changed: ['via'] },
    { event: 'warned' },
  ])
})

t.test('a store whose directory is a file is rejected, and accepted when the file is removed', async t => {
  const { reloader, applied, events, write, remove, rest, watched, timers } = await world(t, {
    'a.yaml': FIRST,
    data: 'a file',
  })
  write('a.yaml', `${FIRST}\norigins: [{ path: /, store: {} }]\n`)
  reloader.request('change')
  await rest()
  timers.fire()
  await rest()
  t.match(events, [
    { event: 'config_rejected', problems: [/a\.yaml:\d+:\d+: origins\[0\]\.store\.directory: /] },
  ])
  t.same(watched(), ['a.yaml', 'data'])
  remove('data')
  reloader.request('change')
  await rest()
  t.match(applied, [{ config: { origins: [{ kind: 'store' }] } }])
})

t.test('a configuration that cannot be applied is rejected, and can be tried again', async t => {
  const made = await world(t)
  const { reloader, applied, events, states, write, rest } = made
  made.apply = async () => {
    throw new Error('key values mismatch')
  }
  write('a.yaml', SECOND)
  reloader.request('change')
  await rest()
  t.match(events, [
    {
      event: 'config_rejected',
      problems: [/a\.yaml: key values mismatch$/],
      err: { stack: /reloader\.test/ },
    },
  ])
  t.match(states, [{ result: 'rejected', hash: parseConfig(FIRST).hash }])
  made.apply = async () => ({ needsRestart: [], closedTunnels: 0 })
  reloader.request('change')
  await rest()
  t.equal(applied.length, 1, 'not by itself')
  reloader.request('signal')
  await rest()
  t.equal(applied.length, 2)
  t.match(states[1], { result: 'applied', hash: applied[1]?.hash })
})

t.test('keys that need a restart are reported, with their lines', async t => {
  const made = await world(t)
  const { reloader, events, write, rest } = made
  made.apply = async () => ({ needsRestart: ['listen.proxy', 'log.format'], closedTunnels: 0 })
  write('a.yaml', 'version: 1\nlisten:\n  proxy: ["127.0.0.1:1"]\n')
  reloader.request('signal')
  await rest()
  t.match(events, [
    { event: 'config_reloaded', needs_restart: ['listen.proxy', 'log.format'] },
    { event: 'config_warning', level: 'warn', path: 'listen.proxy', line: 3, message: /after a restart/ },
    { event: 'config_warning', level: 'warn', path: 'log.format', message: /after a restart/ },
    { event: 'warned' },
  ])
  t.notOk('line' in (events[2] ?? {}))
})

t.test('reload.watch decides whether changes are watched, from one reload to the next', async t => {
  const { reloader, write, rest, watched } = await world(t)
  t.same(watched(), ['a.yaml'])
  write('a.yaml', `${FIRST}reload: { watch: false }\n`)
  reloader.request('change')
  await rest()
  t.equal(watched(), undefined)
  write('a.yaml', SECOND)
  reloader.request('signal')
  await rest()
  t.same(watched(), ['a.yaml'])
})

t.test('after it is closed nothing is read, applied or reported', async t => {
  const made = await world(t)
  const { reloader, applied, events, states, write, rest, watched, timers } = made
  write('a.yaml', '')
  reloader.request('change')
  await rest()
  t.same(timers.running, [1000])
  write('a.yaml', SECOND)
  reloader.request('signal')
  reloader.close()
  await rest()
  reloader.request('signal')
  await rest()
  t.same([applied, events, states, timers.running, watched()], [[], [], [], [], undefined])
  const late = await world(t)
  let fail = (): void => {}
  late.apply = () =>
    new Promise((_resolve, reject) => {
      fail = () => reject(new Error('closed'))
    })
  late.write('a.yaml', SECOND)
  late.reloader.request('signal')
  await late.rest()
  late.reloader.close()
  fail()
  await late.rest()
  t.same([late.events, late.states, late.watched()], [[], [], undefined])
})

t.test('the log has the beginning of a long list of problems', async t => {
  const { reloader, events, write, rest } = await world(t)
  write('a.yaml', `version: 1\n${Array.from({ length: 25 }, (_, i) => `unknown${i}: 1\n`).join('')}`)
  reloader.request('signal')
  await rest()
  const problems = events[0]?.['problems'] as string[]
  t.equal(problems.length, 21)
  t.match(problems[19], /a\.yaml:21:1: unknown19: /)
  t.equal(problems[20], 'and 5 more')
})

t.test('no secret of the environment is in the log and the state of a reload', async t => {
  const { reloader, events, states, write, rest } = await world(t)
  write('hunter2secret.yaml', 'rules: {}\n')
  // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
  write('a.yaml', 'version: 1\ninclude: ["${DB_PASSWORD}.yaml"]\n')
  reloader.request('signal')
  await rest()
  t.match(events, [
    { event: 'config_reloaded', changed_files: [/\/\$\{DB_PASSWORD\}\.yaml$/] },
    { event: 'warned' },
  ])
  write('hunter2secret.yaml', 'rule: {}\n')
  reloader.request('signal')
  await rest()
  t.match(states.at(-1), { result: 'rejected', problems: [/\$\{DB_PASSWORD\}\.yaml:1:1: rule: unknown key/] })
  t.notMatch(JSON.stringify([events, states]), /hunter2/)
})

t.test('no secret is in the error of a configuration that could not be applied', async t => {
  const made = await world(t)
  made.apply = async () => {
    throw Object.assign(new Error('listen /x/hunter2secret'), { address: '/x/hunter2secret' })
  }
  // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
  made.write('a.yaml', 'version: 1\nerror_note: "${DB_PASSWORD}"\n')
  made.reloader.request('signal')
  await made.rest()
  const { events, states } = made
  // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
  t.match(states, [{ result: 'rejected', problems: ['listen /x/${DB_PASSWORD}'] }])
  t.match(events, [{ event: 'config_rejected', err: { stack: String } }])
  t.notMatch(JSON.stringify([events, states]), /hunter2/)
})
