/** The representation fields that are stored with a resource (RFC 9110 §8.3, §8.4, §8.5). */
import { ProxyError } from '../../errors.js'
import { type Fields, fieldValues } from '../../http/fields.js'

/** The values have one character for each byte; a field that the client did not send is absent. */
export interface RepresentationFields {
  readonly contentType?: string
  readonly contentEncoding?: string
  readonly contentLanguage?: string
}

/** @throws ProxyError 400 if there is more than one Content-Type */
export function parseRepresentationFields(fields: Fields): RepresentationFields {
  const types = fieldValues(fields, 'content-type').filter(value => value !== '')
  if (types.length > 1) {
    throw new ProxyError('http_request_error', 'more than one Content-Type', {
      status: 400,
      reason: 'content_type',
      detail: 'A representation has one Content-Type (RFC 9110 §8.3).',
    })
  }
  const [contentType] = types
  const contentEncoding = listOf(fields, 'content-encoding')
  const contentLanguage = listOf(fields, 'content-language')
  return {
    ...(contentType === undefined ? {} : { contentType }),
    ...(contentEncoding === undefined ? {} : { contentEncoding }),
    ...(contentLanguage === undefined ? {} : { contentLanguage }),
  }
}

export function serializeRepresentationFields(kept: RepresentationFields): string[] {
  const fields: string[] = []
  if (kept.contentType !== undefined) fields.push('Content-Type', kept.contentType)
  if (kept.contentEncoding !== undefined) fields.push('Content-Encoding', kept.contentEncoding)
  if (kept.contentLanguage !== undefined) fields.push('Content-Language', kept.contentLanguage)
  return fields
}

function listOf(fields: Fields, name: string): string | undefined {
  const value = fieldValues(fields, name)
    .filter(line => line !== '')
    .join(', ')
  return value === '' ? undefined : value
}
