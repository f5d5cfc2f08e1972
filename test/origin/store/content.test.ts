import t from 'tap'
import { ClientGone, discardContent, readContent } from '../../../src/origin/store/content.js'
import { FakeExchange } from '../../kit/fakes/exchange.js'

const MIB = 1024 * 1024

/** A `take` that finishes only when the test says so. */
function slowTaker() {
  const taken: string[] = []
  const waiting: { readonly done: () => void; readonly fail: (error: Error) => void }[] = []
  const take = (chunks: readonly Buffer[]): Promise<void> => {
    taken.push(Buffer.concat(chunks).toString('latin1'))
    return new Promise((done, fail) => waiting.push({ done, fail }))
  }
  return { taken, waiting, take }
}

/** Waits until all started work has progressed as far as it can. */
async function turn(): Promise<void> {
  await new Promise<void>(resolve => setImmediate(resolve))
}

t.test('pieces are processed in order, those that arrive meanwhile together', async t => {
  const fake = new FakeExchange({ length: undefined })
  const { taken, waiting, take } = slowTaker()
  let done = false
  const reading = readContent(fake, take).then(() => {
    done = true
  })
  for (const piece of ['a', 'b', 'c']) t.equal(fake.consumer?.data(Buffer.from(piece)), true)
  fake.consumer?.end([])
  t.same(taken, ['a'])
  waiting[0]?.done()
  await turn()
  t.same(taken, ['a', 'bc'])
  t.notOk(done, 'not before the last is taken')
  waiting[1]?.done()
  await reading
})

t.test('a client that is faster than the disk is paused', async t => {
  const fake = new FakeExchange({ length: undefined })
  const { waiting, take } = slowTaker()
  const reading = readContent(fake, take)
  t.equal(fake.consumer?.data(Buffer.alloc(1)), true)
  t.equal(fake.consumer?.data(Buffer.alloc(MIB - 1)), true)
  t.equal(fake.consumer?.data(Buffer.alloc(1)), false)
  const before = fake.resumed
  waiting[0]?.done()
  await turn()
  t.equal(fake.resumed, before + 1)
  fake.consumer?.end([])
  waiting[1]?.done()
  await reading
})

t.test(
  'no further content is read after an error, which is reported once the current pieces are done',
  async t => {
    const fake = new FakeExchange({ length: 10 })
    const { taken, waiting, take } = slowTaker()
    const reading = readContent(fake, take)
    fake.consumer?.data(Buffer.from('a'))
    waiting[0]?.fail(new Error('full'))
    await t.rejects(reading, { message: 'full' })
    t.equal(fake.consumer?.data(Buffer.from('b')), false)
    fake.consumer?.end([])
    await turn()
    t.same(taken, ['a'])
  },
)

t.test('reading ends when the client is gone, but only once the current pieces are done', async t => {
  const fake = new FakeExchange({ length: 10 })
  const { taken, waiting, take } = slowTaker()
  let error: unknown
  const reading = readContent(fake, take).catch((reason: unknown) => {
    error = reason
  })
  fake.consumer?.data(Buffer.from('a'))
  fake.consumer?.data(Buffer.from('b'))
  fake.leave()
  await turn()
  t.equal(error, undefined)
  waiting[0]?.done()
  await reading
  t.ok(error instanceof ClientGone)
  t.same(taken, ['a'], 'what came later is not taken')

  const idle = new FakeExchange({ length: 10 })
  const nothing = readContent(idle, take)
  idle.leave()
  await t.rejects(nothing, ClientGone)
})

t.test('100 is sent once, to a client that expects it and has content (RFC 9110 §10.1.1)', async t => {
  for (const [length, expectContinue, informed] of [
    [3, true, ['inform 100']],
    [undefined, true, ['inform 100']],
    [3, false, []],
    [0, true, []],
  ] as const) {
    const fake = new FakeExchange({ method: 'PUT', length, expectContinue })
    const reading = discardContent(fake)
    t.equal(fake.consumer === undefined, length === 0)
    fake.consumer?.data(Buffer.from('abc'))
    fake.consumer?.end([])
    await reading
    t.same(fake.answered, informed, `${length} ${expectContinue}`)
  }
})
