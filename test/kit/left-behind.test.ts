import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, rmSync, watch, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { holdings, leftBehind } from './left-behind.js'
import { within } from './until.js'

/** Long enough for everything that is ending; a test of something that does not end takes all of it. */
const DEADLINE_MS = 50
const skip = process.platform === 'linux' ? false : 'reads /proc, which Linux alone has'

interface Left {
  /** @returns a function that removes it */
  readonly make: (t: Test) => Promise<() => void>
  readonly report: readonly RegExp[]
}

const LEFT: Readonly<Record<string, Left>> = {
  'an interval': {
    make: async () => {
      const timer = setInterval(() => {}, 1e6)
      return () => clearInterval(timer)
    },
    report: [/^1 Timeout$/],
  },
  'a server': {
    make: async () => {
      const server = createServer()
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
      return () => server.close()
    },
    report: [/^1 TCPServerWrap$/, /^descriptor \d+: socket:/, /^Server: \{"address":"127\.0\.0\.1"/],
  },
  'both ends of a connection': {
    make: async () => {
      const server = createServer()
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
      const client = connect({ port: (server.address() as { port: number }).port, host: '127.0.0.1' })
      const [socket] = await once(server, 'connection')
      server.close()
      return () => {
        client.destroy()
        socket.destroy()
      }
    },
    report: [/^2 TCPSocketWrap$/, /^Socket: port \d+ to 127\.0\.0\.1:\d+$/],
  },
  'a socket that does not keep the process alive': {
    make: async () => {
      const server = createServer().unref()
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
      return () => server.close()
    },
    report: [/^descriptor \d+: socket:/],
  },
  'a child process': {
    make: async () => {
      const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: 'ignore' })
      return () => child.kill('SIGKILL')
    },
    report: [/^1 ProcessWrap$/, /^ChildProcess: process \d+, .* -e setInterval/],
  },
  'a thread': {
    make: async () => {
      const thread = new Worker('setInterval(() => {}, 1e6)', { eval: true })
      await once(thread, 'online')
      return () => void thread.terminate()
    },
    report: [/^descriptor \d+: pipe:/],
  },
  'a watcher': {
    make: async t => {
      const watcher = watch(t.testdir())
      return () => watcher.close()
    },
    report: [/^1 FSEventWrap$/],
  },
  'a descriptor': {
    make: async () => {
      const descriptor = openSync(import.meta.filename, 'r')
      return () => closeSync(descriptor)
    },
    report: [/^descriptor \d+: \/.*left-behind\.test\.js$/],
  },
}

for (const [name, { make, report }] of Object.entries(LEFT)) {
  t.test(`tells of ${name} that is left, and of nothing once it is gone`, { skip }, async t => {
    const before = holdings()
    const remove = await make(t)
    const left = await leftBehind(before, DEADLINE_MS)
    for (const line of report)
      t.ok(
        left.some(found => line.test(found)),
        `${line}: ${left.join(', ')}`,
      )
    remove()
    t.same(await leftBehind(before), [])
  })
}

t.test('waits for whatever is ending, and counts a replacement only once', { skip }, async t => {
  const old = createServer()
  await new Promise<void>(resolve => old.listen(0, '127.0.0.1', resolve))
  const before = holdings()
  setTimeout(() => {}, 20)
  const replacement = createServer()
  await new Promise<void>(resolve => replacement.listen(0, '127.0.0.1', resolve))
  old.close()
  t.same(await leftBehind(before), [])
  replacement.close()
})

/** The output of a test file with these lines, whose tests are checked. */
async function outputOf(t: Test, ...lines: string[]): Promise<string> {
  // Next to the packages, so that it finds them.
  const file = join(import.meta.dirname, `left-behind-${process.pid}.mjs`)
  const checked = [
    "import { checkEach } from './left-behind.js'",
    "import t from 'tap'",
    'const leak = () => setTimeout(() => {}, 500)',
    `checkEach(t, ${DEADLINE_MS})`,
  ]
  writeFileSync(file, [...checked, ...lines].join('\n'))
  t.teardown(() => rmSync(file))
  const child = spawn(process.execPath, [file], { env: { PATH: process.env['PATH'] } })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    output += text
  })
  const [code] = await within('the tests to be over', once(child, 'close'), { seen: () => output })
  t.equal(code, output.includes('not ok') ? 1 : 0, output)
  return output
}

t.test('only the test that left something fails, also as a subtest', { skip }, async t => {
  const output = await outputOf(
    t,
    "t.test('clean', async t => t.pass())",
    "t.test('around', async t => {",
    "  await t.test('leaks', async t => t.ok(leak()))",
    "  await t.test('clean, too', async t => t.pass())",
    '})',
    "t.test('last', async t => t.pass())",
  )
  t.match(output, /^ {4}not ok \d - left behind by "leaks"\n.*\n {6}left:\n {8}- 1 Timeout\n/m)
  t.match(output, /^not ok \d - around /m)
  t.match(output, /^ok \d - clean /m)
  t.match(output, /^ {4}ok \d - clean, too /m)
  t.match(output, /^ok \d - last /m)
})

t.test('of concurrent tests all are named when the last has ended', { skip }, async t => {
  const output = await outputOf(
    t,
    't.jobs = 2',
    "t.test('one', async t => t.ok(leak()))",
    "t.test('two', async t => t.pass())",
  )
  t.match(output, /^not ok 3 - left behind by "one", "two"$/m)
})

t.test('what a test removes itself is not left behind', { skip }, async t => {
  const output = await outputOf(
    t,
    "t.test('one', async t => { const timer = leak(); t.teardown(() => clearTimeout(timer)); t.pass() })",
    "t.test('two', async t => { await new Promise(resolve => setTimeout(resolve, 1)); t.pass() })",
  )
  t.notMatch(output, 'not ok')
  t.notMatch(output, 'left behind')
})
