import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LogSink } from '../../src/observe/log-sink.js'
import { needs } from '../kit/processes/command.js'
import { until } from '../kit/until.js'

function file(t: Test) {
  const path = join(t.testdir({}), 'log')
  const fd = openSync(path, 'w')
  t.teardown(() => closeSync(fd))
  return { sink: new LogSink(fd, lines => `lost ${lines}\n`), read: () => readFileSync(path, 'utf8') }
}

/** A pipe that nobody reads until told, whose writer never blocks. */
function pipe(t: Test, maxLength?: number) {
  const path = join(t.testdir({}), 'pipe')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
  let left = false
  const leave = () => {
    if (!left) closeSync(reader)
    left = true
  }
  t.teardown(() => {
    closeSync(writer)
    leave()
  })
  const buffer = Buffer.alloc(1024 * 1024)
  const read = () => {
    try {
      return buffer.toString('latin1', 0, readSync(reader, buffer))
    } catch {
      return ''
    }
  }
  return {
    path,
    sink: new LogSink(writer, lines => `lost ${lines}\n`, maxLength),
    read,
    leave,
  }
}

// Node itself goes on at this signal; the runner of the tests ends a process that does not listen to it.
process.on('SIGXFSZ', () => {})

/** Has files of this process grow to so many bytes at most, meanwhile. */
async function withFileSize(bytes: number, task: () => Promise<void>): Promise<void> {
  const limit = (size: string) => execFileSync('prlimit', [`--pid=${process.pid}`, `--fsize=${size}:`])
  limit(String(bytes))
  try {
    await task()
  } finally {
    limit('unlimited')
  }
}

const skip = needs('prlimit')

t.test('keeps lines back until it is flushed, and writes them in order', async t => {
  const { sink, read } = file(t)
  sink.write('a\n')
  sink.write('ü\n')
  t.equal(read(), '')
  await sink.flush()
  t.equal(read(), 'a\nü\n')
  await sink.flush()
  t.equal(read(), 'a\nü\n', 'and nothing twice')
  t.equal(sink.lostLines, 0)
})

t.test('writes by itself once there is enough, or after a while', async t => {
  const { sink, read } = file(t)
  const much = `${'x'.repeat(32 * 1024)}\n`
  sink.write(much)
  t.equal(read(), much)
  sink.write('little\n')
  t.equal(read(), much, 'a little waits for more')
  const written = () => read() !== much
  await until('what is left to be written', written, { seen: () => read().slice(much.length) })
  t.equal(read(), `${much}little\n`)
})

t.test('lines that come during a write follow it', async t => {
  const { sink, read } = file(t)
  const lines = Array.from({ length: 5000 }, (_, i) => `line ${i} ${'x'.repeat(20)}\n`)
  for (const [i, line] of lines.entries()) {
    sink.write(line)
    if (i % 1000 === 0) await new Promise<void>(resolve => setImmediate(resolve))
  }
  await sink.flush()
  t.equal(read(), lines.join(''))
})

t.test('waits for a reader that is slow, with a limit of memory, and tells what it cost', async t => {
  const limit = 256 * 1024
  const { path, sink, read, leave } = pipe(t, limit)
  const line = `${'x'.repeat(1023)}\n`
  for (let i = 0; i < 2 * 1024; i++) sink.write(line)
  const flush = sink.flush()
  for (let i = 0; i < 100; i++) await stat(path)
  let text = ''
  let told: RegExpExecArray | null = null
  for (; told === null; told = /lost (\d+)\n$/.exec(text)) {
    text += read()
    await new Promise<void>(resolve => setImmediate(resolve))
  }
  await flush
  text += read()
  leave()
  text = text.replace(told[0], '')
  t.equal(Number(told[1]), 2 * 1024 - text.length / line.length)
  t.equal(text.length % line.length, 0, 'whole lines')
  t.ok(text.length >= limit, 'what there was room for is there')
  t.ok(text.length <= 2 * limit, 'and what there was none for is not')
})

t.test('a reader that has stalled holds nobody up', async t => {
  const { sink, read, leave } = pipe(t)
  const line = `${'x'.repeat(1023)}\n`
  for (let i = 0; i < 1024; i++) sink.write(line)
  await sink.flush()
  let text = read()
  t.ok(text.length > 0 && text.length < 1024 * line.length, 'it came back before all was read')
  const all = () => {
    text += read()
    return text.length >= 1024 * line.length
  }
  await until('the rest of the lines', all, { seen: () => text.length })
  t.equal(text, line.repeat(1024), 'and none of it is lost')
  t.equal(sink.fault, undefined)
  leave()
})

t.test('a reader that is gone costs its lines and nothing else', async t => {
  const { path, sink, leave } = pipe(t)
  leave()
  for (let i = 0; i < 3; i++) {
    sink.write('a\n')
    await sink.flush()
    t.equal(sink.fault, 'EPIPE')
  }
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  t.teardown(() => closeSync(reader))
  sink.write('b\n')
  await sink.flush()
  const text = Buffer.alloc(100)
  t.equal(
    text.toString('latin1', 0, readSync(reader, text)),
    'lost 3\nb\n',
    'and the next one is told of them',
  )
})

t.test('so does a device without room', { skip: process.platform !== 'linux' && 'no /dev/full' }, async t => {
  const fd = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(fd))
  const told: number[] = []
  const sink = new LogSink(fd, lines => {
    told.push(lines)
    return `lost ${lines}\n`
  })
  t.equal(sink.fault, undefined)
  sink.write('a\nb\n')
  await sink.flush()
  t.equal(sink.fault, 'ENOSPC')
  t.same(told, [], 'there is nowhere to tell it yet')
  sink.write('c\n')
  await sink.flush()
  t.same(told, [2])
  t.equal(sink.lostLines, 3, 'the line that told of two is none of them')
  sink.write('d\n')
  await sink.flush()
  t.same(told, [2, 3])
  t.equal(sink.lostLines, 4)
})

t.test('of several lines that are lost together each is counted', async t => {
  const { sink, read } = pipe(t, 10)
  sink.write('123456789\n')
  sink.write('a\nb\nc\n')
  await sink.flush()
  t.equal(read(), '123456789\nlost 3\n')
  t.equal(sink.lostLines, 3)
})

t.test('a file without room: all that it did not take is told, on a line of its own', { skip }, async t => {
  const { sink, read } = file(t)
  await withFileSize(10, async () => {
    sink.write('1\n2\n')
    await sink.flush()
    sink.write('3456789\nabc\n')
    await sink.flush()
    t.equal(read(), '1\n2\n345678', 'as much as there is room for')
    t.equal(sink.fault, 'EFBIG')
    for (let i = 0; i < 3; i++) {
      sink.write('d\n')
      await sink.flush()
    }
  })
  await withFileSize(18, async () => {
    sink.write('e\n')
    await sink.flush()
    t.equal(read(), '1\n2\n345678\nlost 5\n')
  })
  sink.write('f\n')
  await sink.flush()
  t.equal(read(), '1\n2\n345678\nlost 5\nlost 1\nf\n', 'nothing is told twice')
  t.equal(sink.lostLines, 6)
})
