/**
 * What an answer of a parent proxy means that is no answer of the one it was asked to reach: 502, because to the client it is
 * this proxy that did not get through, and its own credentials have nothing to do with it.
 */
import { ProxyError } from '../errors.js'
import type { Parent } from './parent.js'

const PROXY_AUTHENTICATION_REQUIRED = 407
/** What is repeated of the parent's own words, which may be anything. */
const MAX_REASON = 120
const UNPRINTABLE = /[^\x20-\x7e]/g

type Asked = Pick<Parent, 'url' | 'authorization'>

/**
 * @param head of an answer to CONNECT other than 2xx, or of a 407
 * @param method of the request
 * @returns an error whose reason is `parent_credentials`, `parent_failed` for 5xx, and otherwise `parent_refused`
 */
export function parentRefusal(
  parent: Asked,
  { status, reason }: { readonly status: number; readonly reason: string },
  method: string,
): ProxyError {
  const said = reason.slice(0, MAX_REASON).replace(UNPRINTABLE, '?')
  const answer = `The parent proxy ${parent.url} answered ${status}${said === '' ? '' : ` (${said})`}`
  if (status !== PROXY_AUTHENTICATION_REQUIRED) {
    return new ProxyError('connection_refused', `the parent proxy answered ${status}`, {
      status: 502,
      reason: status >= 500 ? 'parent_failed' : 'parent_refused',
      detail: `${answer}. It was the parent that said so, and not this proxy.`,
    })
  }
  return new ProxyError('connection_refused', 'the parent proxy answered 407', {
    status: 502,
    reason: 'parent_credentials',
    detail: `${answer}. ${remedy(parent, method)}`,
  })
}

function remedy({ authorization }: Asked, method: string): string {
  if (method === 'TRACE') {
    return 'A TRACE is sent without the name and password of parent.basic_file, as its answer would show them: the parent has to let it pass without any.'
  }
  return authorization === undefined
    ? 'It asks for a name and a password: write them as user:password into a file, and its path into parent.basic_file.'
    : 'It did not take the name and password in the file that parent.basic_file names.'
}
