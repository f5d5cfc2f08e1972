/**
 * Whether the head of a response from upstream may be passed on, and how long its content is (RFC 9112 §4, §6;
 * RFC 9110 §15). The parsers refuse most of what is malformed; what they let through is refused here.
 */
import { ProxyError } from '../errors.js'
import { hasField } from '../http/fields.js'
import { checkResponseFraming } from '../http1/body-framing.js'
import type { UpstreamHead } from '../upstream/sender.js'

/**
 * The head of a final response.
 * @returns the content length it declares, undefined when it declares none
 * @throws ProxyError 502
 */
export function checkFinalHead(head: UpstreamHead): number | undefined {
  if (head.status < 200) throw badStatus(head.status)
  if (head.minor === 0 && hasField(head.fields, 'transfer-encoding')) {
    throw new ProxyError('http_response_transfer_coding', 'Transfer-Encoding in an HTTP/1.0 response')
  }
  return checkResponseFraming(head.fields)
}

/** @throws ProxyError 502 for what is not an interim response that can be passed on */
export function checkInterimHead(head: UpstreamHead): void {
  if (head.status < 100 || head.status === 101) throw badStatus(head.status)
}

/** Whether a response ends with its head, whatever its fields say of its content (RFC 9112 §6.3). */
export function endsWithHead(method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

function badStatus(status: number): ProxyError {
  if (status === 101) {
    return new ProxyError('http_upgrade_failed', 'protocol switched without being asked')
  }
  return new ProxyError('http_protocol_error', `status code ${status} in the response`)
}
