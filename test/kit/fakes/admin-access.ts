/** Access to the admin listener with the default configuration. */
import { AdminAccess } from '../../../src/admin/access.js'

/** @param hosts the allowed values of Host */
export function openAccess(hosts: readonly string[] = []): AdminAccess {
  const rules = { hosts, access: { readOnly: false }, htpasswd: new Map() }
  const passwords = {
    verify: () => Promise.reject(new Error('there is no password')),
    queue: {
      create: () => {
        throw new Error('there is no password')
      },
    },
  }
  return new AdminAccess(
    () => rules,
    passwords,
    () => 0,
  )
}
