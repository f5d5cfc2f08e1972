import t from 'tap'
import { EXIT } from '../../src/run/exit-codes.js'

t.test('exit codes are those of sysexits.h', async t => {
  t.strictSame(EXIT, {
    ok: 0,
    denied: 1,
    usage: 64,
    data: 65,
    noInput: 66,
    unavailable: 69,
    software: 70,
    system: 71,
    cannotCreate: 73,
    ioError: 74,
    temporary: 75,
    config: 78,
  })
})
