import { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { type IpAddress, parseIpAddress } from '../../src/net/ip-address.js'
import {
  ATTEMPT_DELAY_MS,
  interleaveFamilies,
  MAX_ATTEMPTS,
  raceAttempts,
} from '../../src/upstream/happy-eyeballs.js'
import { Changes, until } from '../kit/until.js'

function ips(...texts: string[]): IpAddress[] {
  return texts.map(text => {
    const ip = parseIpAddress(text)
    if (ip === undefined) throw new Error(text)
    return ip
  })
}

t.test('address families alternate, IPv6 first, and keep their order (RFC 8305 §4)', async t => {
  const order = (...texts: string[]) => interleaveFamilies(ips(...texts)).map(({ text }) => text)
  t.same(order('192.0.2.1', '192.0.2.2', '2001:db8::1', '2001:db8::2', '192.0.2.3'), [
    '2001:db8::1',
    '192.0.2.1',
    '2001:db8::2',
    '192.0.2.2',
    '192.0.2.3',
  ])
  t.same(order('192.0.2.2', '192.0.2.1'), ['192.0.2.2', '192.0.2.1'])
  t.same(order('2001:db8::2', '2001:db8::1', '192.0.2.1'), ['2001:db8::2', '192.0.2.1', '2001:db8::1'])
  t.same(order(), [])
})

/** A race whose sockets connect and fail when the test says so. */
function race(t: Test, texts: string[], timeoutMs = 60_000, refuse: string[] = []) {
  const opened: { address: string; socket: Socket }[] = []
  const changes = new Changes()
  const controller = new AbortController()
  const result = raceAttempts(ips(...texts), {
    open: address => {
      if (refuse.includes(address.text)) throw new Error(`will not open ${address.text}`)
      const socket = new Socket()
      opened.push({ address: address.text, socket })
      changes.notify()
      return socket
    },
    timeoutMs,
    timedOut: () => new Error('too late'),
    connected: winner => winner,
    signal: controller.signal,
  })
  result.catch(() => {})
  t.teardown(() => controller.abort())
  const attempt = (address: string): Promise<Socket> =>
    until(`an attempt at ${address}`, () => opened.find(one => one.address === address)?.socket, {
      changes,
      seen: () => opened.map(one => one.address),
    })
  return { opened, result, controller, attempt, addresses: () => opened.map(({ address }) => address) }
}

t.test('the first established connection wins, and the other attempts are closed (RFC 8305 §5)', async t => {
  const { result, attempt, addresses } = race(t, ['192.0.2.1', '2001:db8::1', '192.0.2.2'])
  const six = await attempt('2001:db8::1')
  t.same(addresses(), ['2001:db8::1'], 'one at a time')
  const four = await attempt('192.0.2.1')
  t.equal(six.destroyed, false, 'the first goes on beside the second')
  four.emit('connect')
  t.match(await result, { socket: four, address: { text: '192.0.2.1' } })
  t.equal(six.destroyed, true)
  t.equal(four.destroyed, false)
  t.same(addresses(), ['2001:db8::1', '192.0.2.1'], 'the third is never tried')
  six.emit('error', new Error('late'))
  four.emit('error', new Error('whoever has it now sees to that'))
})

t.test('a slow first attempt may still win', async t => {
  const { result, attempt } = race(t, ['192.0.2.1', '192.0.2.2'])
  const first = await attempt('192.0.2.1')
  const second = await attempt('192.0.2.2')
  first.emit('connect')
  t.equal((await result).socket, first)
  t.equal(second.destroyed, true)
  second.emit('connect')
})

t.test('the next attempt starts as soon as one fails, and the last error is reported', async t => {
  const { result, attempt, addresses } = race(t, ['192.0.2.1', '192.0.2.2', '192.0.2.3'], 60_000, [
    '192.0.2.2',
  ])
  const first = await attempt('192.0.2.1')
  first.emit('error', new Error('first'))
  t.same(addresses(), ['192.0.2.1', '192.0.2.3'], 'without waiting, past one that cannot even be opened')
  const third = await attempt('192.0.2.3')
  third.emit('error', new Error('third'))
  await t.rejects(result, { message: 'third' })
})

t.test('the failure of one attempt does not close the others', async t => {
  const { result, attempt } = race(t, ['192.0.2.1', '192.0.2.2'])
  const first = await attempt('192.0.2.1')
  const second = await attempt('192.0.2.2')
  second.emit('error', new Error('x'))
  first.emit('connect')
  t.equal((await result).socket, first)
})

t.test('at most the first sixteen addresses are tried, of both families in turn', async t => {
  t.equal(MAX_ATTEMPTS, 16)
  const numbers = Array.from({ length: 17 }, (_, i) => i + 1)
  const texts = [...numbers.map(i => `192.0.2.${i}`), ...numbers.map(i => `2001:db8::${i.toString(16)}`)]
  const { result, attempt, addresses } = race(t, texts)
  const tried = numbers.slice(0, 8).flatMap(i => [`2001:db8::${i}`, `192.0.2.${i}`])
  for (const address of tried) (await attempt(address)).emit('error', new Error(address))
  t.same(addresses(), tried)
  await t.rejects(result, { message: '192.0.2.8' })

  const last = race(t, texts.slice(0, 16))
  for (const address of texts.slice(0, 15)) (await last.attempt(address)).emit('error', new Error(address))
  const sixteenth = await last.attempt('192.0.2.16')
  sixteenth.emit('connect')
  t.equal((await last.result).socket, sixteenth)
})

t.test('one timeout covers all attempts', async t => {
  const { result, opened } = race(t, ['192.0.2.1', '192.0.2.2'], 20)
  await t.rejects(result, { message: 'too late' })
  t.ok(opened.every(({ socket }) => socket.destroyed))
})

t.test('a signal cancels all attempts', async t => {
  const { result, controller, opened } = race(t, ['192.0.2.1', '192.0.2.2'])
  const reason = new Error('gone')
  controller.abort(reason)
  await t.rejects(result, reason)
  t.equal(opened.length, 1)
  t.ok(opened.every(({ socket }) => socket.destroyed))
})

t.test('nothing is opened if the signal was aborted before', async t => {
  const reason = new Error('gone')
  let opened = 0
  const result = raceAttempts(ips('192.0.2.1'), {
    open: () => {
      opened++
      return new Socket()
    },
    timeoutMs: 60_000,
    timedOut: () => new Error('too late'),
    connected: winner => winner,
    signal: AbortSignal.abort(reason),
  })
  await t.rejects(result, reason)
  t.equal(opened, 0)
})

/** The timeout of all attempts, driven by the test. */
const LIMIT_MS = 7_654_321

t.test('no timer is left after a race, however it ends', async t => {
  const timers = pauseTimers(t, LIMIT_MS)
  const delays = pauseTimers(t, ATTEMPT_DELAY_MS)
  const running = () => [timers.running, delays.running]
  const two = ['192.0.2.1', '192.0.2.2']
  const won = race(t, two, LIMIT_MS)
  t.same(running(), [1, 1])
  ;(await won.attempt('192.0.2.1')).emit('connect')
  await won.result
  t.same(running(), [0, 0])
  const lost = race(t, two, LIMIT_MS)
  for (const address of two) (await lost.attempt(address)).emit('error', new Error('x'))
  await t.rejects(lost.result, { message: 'x' })
  t.same(running(), [0, 0])
  const aborted = race(t, two, LIMIT_MS)
  aborted.controller.abort(new Error('gone'))
  await t.rejects(aborted.result, { message: 'gone' })
  t.same(running(), [0, 0])
  const late = race(t, two, LIMIT_MS)
  await timers.fire()
  await t.rejects(late.result, { message: 'too late' })
  t.same(running(), [0, 0])
})
