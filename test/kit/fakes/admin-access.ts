/** Access to the admin listener where the configuration says nothing of it. */
import { AdminAccess } from '../../../src/admin/access.js'

/** @param hosts names that Host may have */
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
