/** The errors that are those of PATCH alone (RFC 5789 §2.2). */
import { ProxyError } from '../../errors.js'
import { ACCEPT_PATCH } from './answers.js'

/** 400: the patch document is not what its media type says. */
export function malformedPatch(what: string): ProxyError {
  return new ProxyError('http_request_error', 'malformed patch document', {
    status: 400,
    reason: 'patch_malformed',
    detail: `The patch document is malformed: ${what}.`,
  })
}

/** 422: a good patch, but not for this resource as it is now. */
export function cannotApply(what: string): ProxyError {
  return new ProxyError('http_request_error', 'the patch can not be applied', {
    status: 422,
    reason: 'patch_inapplicable',
    detail: `The patch can not be applied, and nothing was changed: ${what}.`,
  })
}

/** 415: a media type, or a coding, that is not one of a patch document that is taken here. */
export function unsupportedPatch(what: string, fields: readonly string[] = []): ProxyError {
  return new ProxyError('http_request_error', 'patch format not supported', {
    status: 415,
    reason: 'patch_format',
    fields: ['Accept-Patch', ACCEPT_PATCH, ...fields],
    detail: `${what}; PATCH takes ${ACCEPT_PATCH}.`,
  })
}
