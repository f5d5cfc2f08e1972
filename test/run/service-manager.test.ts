/** Notifications to systemd (sd_notify(3)). */
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createNotify } from '../../src/run/service-manager.js'
import { temporaryDirectory } from '../kit/processes/command.js'

/** A folder with a program of this name; it can write to `$OUT`. */
async function program(t: Test, script: string): Promise<{ PATH: string; OUT: string }> {
  const folder = await temporaryDirectory(t)
  const file = join(folder, 'systemd-notify')
  await writeFile(file, `#!/bin/sh\n${script}\n`)
  await chmod(file, 0o755)
  return { PATH: folder, OUT: join(folder, 'out') }
}

t.test('without a socket nothing is sent', async t => {
  const env = await program(t, 'echo called > "$OUT"')
  for (const socket of [undefined, '']) {
    t.equal(await createNotify(socket, env)('READY=1'), undefined)
  }
  await t.rejects(readFile(env.OUT), { code: 'ENOENT' })
})

t.test('systemd’s own program gets the state, and the socket in its environment', async t => {
  const env = await program(t, 'echo "$@ $NOTIFY_SOCKET" >> "$OUT"')
  const notify = createNotify('/run/notify', env)
  t.equal(await notify('READY=1'), undefined)
  t.equal(await notify('STOPPING=1'), undefined)
  t.equal(await readFile(env.OUT, 'utf8'), 'READY=1 /run/notify\nSTOPPING=1 /run/notify\n')
})

t.test('a program that fails or is missing is reported, and nothing else', async t => {
  const failing = await program(t, 'exit 3')
  t.equal(await createNotify('/run/notify', failing)('READY=1'), 'systemd-notify READY=1: ended with 3')
  const killed = await program(t, 'kill -KILL $$')
  t.equal(await createNotify('/run/notify', killed)('READY=1'), 'systemd-notify READY=1: ended with SIGKILL')
  const missing = { PATH: await temporaryDirectory(t) }
  t.match(await createNotify('/run/notify', missing)('STOPPING=1'), /^systemd-notify STOPPING=1: .*ENOENT/)
  const bad = { ...missing, BAD: 'a\0b' }
  t.match(await createNotify('/run/notify', bad)('STOPPING=1'), /^systemd-notify STOPPING=1: /)
})
