/**
 * The address policy in a separate network namespace, in which `lo` has addresses of every class and an origin listens on
 * all of them. So every refused address could have been reached.
 */
import { join } from 'node:path'
import t from 'tap'
import { run } from '../kit/processes/command.js'
import { REACHED, REFUSED } from './address-policy-table.js'

const INNER = join(import.meta.dirname, 'address-policy-namespace.js')

/** Brings up `lo` with the addresses, and executes the test. */
const SETUP = `
ip link set lo up
for address in ${[...REACHED, ...REFUSED].map(({ address }) => address).join(' ')}; do
  case $address in
    127.*|::1|0.0.0.0|::) ;;
    *:*) ip address add "$address/128" dev lo nodad ;;
    *) ip address add "$address/32" dev lo ;;
  esac
done
exec "$0" "$1"
`

const skip = await missing()

t.test('in a network namespace', { skip }, async t => {
  await t.spawn('unshare', ['--net', '--', 'sh', '-ec', SETUP, process.execPath, INNER], {}, 'address policy')
})

async function missing(): Promise<string | false> {
  if (process.env['CI'] === 'true') return false
  const tried = await run('unshare', ['--net', '--', 'ip', 'link', 'set', 'lo', 'up']).catch(() => undefined)
  return tried?.code === 0 ? false : 'needs root, unshare (util-linux) and ip (iproute2)'
}
