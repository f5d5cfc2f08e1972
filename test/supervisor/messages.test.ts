import t from 'tap'
import { Conversation, type Message } from '../../src/supervisor/messages.js'

type Sum = {
  add: { content: readonly number[]; answer: number }
  fail: { content: undefined; answer: undefined }
}
type Nothing = Record<never, never>

/** Two ends, with the messages in each direction. */
function pair() {
  const sent: (readonly Message[])[] = []
  const answered: (readonly Message[])[] = []
  const asking: Conversation<Sum, Nothing> = new Conversation<Sum, Nothing>(
    {
      send: messages => {
        sent.push(messages)
        answering.receive(structuredClone([...messages]))
      },
    },
    {},
  )
  const answering: Conversation<Nothing, Sum> = new Conversation<Nothing, Sum>(
    {
      send: messages => {
        answered.push(messages)
        asking.receive(structuredClone([...messages]))
      },
    },
    {
      add: async numbers => numbers.reduce((sum, number) => sum + number, 0),
      fail: () => {
        throw new RangeError('it cannot be')
      },
    },
  )
  return { asking, answering, sent, answered }
}

t.test('each call gets its own answer, and the calls of one turn are sent as one batch', async t => {
  const { asking, sent } = pair()
  const answers = [asking.ask('add', [1, 2]), asking.ask('add', [3, 4]), asking.ask('add', [])]
  t.same(await Promise.all(answers), [3, 7, 0])
  t.same(
    sent.map(messages => messages.length),
    [3],
  )
  t.equal(await asking.ask('add', [5]), 5)
  t.equal(sent.length, 2)
})

t.test('a call without an answer gets none, whatever happens', async t => {
  const { asking, answered, sent } = pair()
  asking.tell('add', [1])
  asking.tell('fail', undefined)
  t.equal(await asking.ask('add', [2]), 2)
  t.equal(sent[0]?.length, 3, 'all in one message')
  t.same(
    answered.flat().map(({ id }) => id),
    [1],
  )
})

t.test('an error on the other side rejects the call', async t => {
  const { asking } = pair()
  await t.rejects(asking.ask('fail', undefined), { name: 'RangeError', message: 'it cannot be' })
})

t.test('a call that the other side does not know fails', async t => {
  const { answering } = pair()
  const other = answering as unknown as Conversation<Sum, Nothing>
  await t.rejects(other.ask('add', [1]), { message: 'unknown call add' })
})

t.test('when the other process has ended, pending and later calls fail', async t => {
  const { asking, sent } = pair()
  const open = asking.ask('add', [1])
  asking.end()
  await t.rejects(open, { message: 'the other process has ended' })
  await t.rejects(asking.ask('add', [1]), { message: 'the other process has ended' })
  t.same(sent, [], 'nothing is sent to it')
})

t.test('an answer without a call is ignored', async t => {
  const { asking } = pair()
  asking.receive([{ type: 'answer', id: 7, value: 1 }])
  t.equal(await asking.ask('add', [1]), 1)
})
