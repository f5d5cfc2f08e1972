import t from 'tap'
import { Conversation, type Message } from '../../src/supervisor/messages.js'

type Sum = {
  add: { content: readonly number[]; answer: number }
  fail: { content: undefined; answer: undefined }
}
type Nothing = Record<never, never>

/** Two ends, with what went each way. */
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

t.test('each question gets its own answer, and what is asked in one turn goes as one message', async t => {
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

t.test('what needs no answer gets none, whatever becomes of it', async t => {
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

t.test('what the other side throws is thrown here', async t => {
  const { asking } = pair()
  await t.rejects(asking.ask('fail', undefined), { name: 'RangeError', message: 'it cannot be' })
})

t.test('a question that the other side does not know fails', async t => {
  const { answering } = pair()
  const other = answering as unknown as Conversation<Sum, Nothing>
  await t.rejects(other.ask('add', [1]), { message: 'nothing is known of add' })
})

t.test('when the other side is gone, what is open fails, and so does what comes', async t => {
  const { asking, sent } = pair()
  const open = asking.ask('add', [1])
  asking.end()
  await t.rejects(open, { message: 'the other process is gone' })
  await t.rejects(asking.ask('add', [1]), { message: 'the other process is gone' })
  t.same(sent, [], 'nothing is sent to it')
})

t.test('an answer to nothing that was asked is left alone', async t => {
  const { asking } = pair()
  asking.receive([{ type: 'answer', id: 7, value: 1 }])
  t.equal(await asking.ask('add', [1]), 1)
})
