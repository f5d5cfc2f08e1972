import t from 'tap'
import { Slot } from '../../src/limits/connection-slot.js'
import { limitReached } from '../../src/limits/refusals.js'

t.test('a place is given back once, also when it was granted after the connection was gone', async t => {
  let given = 0
  const slot = new Slot()
  slot.grant(() => given++)
  t.equal(slot.refusal, undefined)
  slot.release()
  slot.release()
  t.equal(given, 1)
  const late = new Slot()
  late.release()
  late.grant(() => given++)
  t.equal(given, 2)
})

t.test('a refused slot has its refusal until it is released', async t => {
  let forgotten = 0
  const refusal = limitReached('connections', '1')
  const slot = new Slot()
  slot.refuse(refusal, () => forgotten++)
  t.equal(slot.refusal, refusal)
  slot.release()
  slot.release()
  t.equal(forgotten, 1)
  const late = new Slot()
  late.release()
  late.refuse(refusal, () => forgotten++)
  t.equal(forgotten, 2)
})

t.test('a slot is pending until it is granted or refused', async t => {
  const slot = new Slot()
  t.equal(slot.pending, undefined)
  let answer = () => {}
  slot.wait(
    new Promise<void>(resolve => {
      answer = resolve
    }),
  )
  const { pending } = slot
  t.ok(pending instanceof Promise)
  answer()
  await pending
  t.equal(slot.pending, undefined)
})
