/** The files that `parent` names: the credentials for it, and who vouches for its certificate. */
import { serializeBasic } from '../http/basic-credentials.js'
import type { FileReader } from './file-reader.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import { readCertificates } from '../tls/tls-files.js'

export interface ParentFiles {
  /** The value of Proxy-Authorization. */
  readonly authorization?: string
  /** Authorities in PEM. */
  readonly ca?: string
}

const BASIC_FILE: Path = ['parent', 'basic_file']
/** Controls, and what stands where the file was not UTF-8. */
const UNREADABLE = /[\p{Cc}\ufffd]/u

/** @param nowMs when certificates have to be valid, in milliseconds since the epoch */
export function readParentFiles(
  { basicFile, ca }: NonNullable<Config['parent']>,
  reader: FileReader,
  nowMs: number,
): ParentFiles {
  const authorization = basicFile === undefined ? undefined : readBasic(basicFile, reader)
  const certificates = ca === undefined ? undefined : readCertificates(ca, ['parent', 'ca'], reader, nowMs)
  return {
    ...(authorization === undefined ? {} : { authorization }),
    ...(certificates === undefined ? {} : { ca: certificates.text }),
  }
}

/** No message holds any of the file. */
function readBasic(name: string, reader: FileReader): string | undefined {
  const file = reader.read(BASIC_FILE, name)
  if (file === undefined) return undefined
  const line = file.text.replace(/^\ufeff/, '').replace(/\r?\n$/, '')
  const colon = line.indexOf(':')
  if (colon < 1 || UNREADABLE.test(line)) {
    reader.fault(BASIC_FILE, `${name} is not one line of user:password in UTF-8`)
    return undefined
  }
  if (file.isPublic) {
    reader.warn(BASIC_FILE, `every user of this machine can read ${name}; do \`chmod o= ${name}\``)
  }
  return serializeBasic({ user: line.slice(0, colon), password: line.slice(colon + 1) })
}
