/**
 * Every statement of the method specification, in words of our own, and the tests that show that it holds.
 *
 * Statements are numbered in the order of their section, including rows of tables. A test is `file > title`, of
 * a file in this folder, as in its source; decisions of the cache are tested in `cache/`.
 */

import {
  AUTHORITY,
  CONTENT_RANGE,
  DELETED_AGAIN,
  FORMATS,
  NO_TUNNEL,
  PORTS,
  TRACE_OFF,
  TUNNEL,
  CACHEABLE,
  type Statement,
} from './statement.js'
import { METHOD_STATEMENTS } from './statements-methods.js'

/** The number of statements in each section; other sections have none. */
export const SECTION_COUNTS: Readonly<Record<string, number>> = {
  '1': 2,
  '2': 3,
  '3': 1,
  '4': 3,
  '4.1': 2,
  '4.2': 16,
  '4.3': 7,
  '4.4': 7,
  '4.5': 8,
  '4.6': 7,
  '4.7': 7,
  '4.8': 7,
  '4.9': 6,
  '4.10': 7,
  '4.11': 8,
  '7': 9,
  '8': 1,
  '9': 2,
}

/** The RFC sections with the same content; a title may name one of these instead. */
export const RFC_SECTIONS: Readonly<Record<string, readonly string[]>> = {
  '3': ['RFC 9110 §9.3.6'],
  '4': ['RFC 9112 §3.2.3', 'RFC 9112 §3.2.4'],
  '4.1': ['RFC 9110 §9.1'],
  '4.2': ['RFC 9110 §9.2.2'],
  '4.3': ['RFC 9110 §9.3.1'],
  '4.4': ['RFC 9110 §9.3.2'],
  '4.5': ['RFC 9110 §9.3.3'],
  '4.6': ['RFC 9110 §9.3.4'],
  '4.7': ['RFC 9110 §9.3.5'],
  '4.8': ['RFC 9110 §9.3.6'],
  '4.9': ['RFC 9110 §9.3.7'],
  '4.10': ['RFC 9110 §9.3.8'],
  '4.11': ['RFC 5789 §2'],
  '7': ['RFC 9110 §15.5.6', 'RFC 9110 §15.6.2', 'RFC 9110 §9.3.6'],
}

const MATCHED =
  'method-matching > 2, 4.1, 7 a method in other letters is no method here: 501, and nobody is asked'
const NINE = 'method-matching > 1, 4.1 each method in its own letters is answered as what it is'
const TOKEN = 'method-matching > 2, 4.1 a method is a token: what is none is 400, and any token can be let in'
const NOT_TAKEN =
  'method-matching > 2, 7 a method that the resource does not take: 405, and Allow has those that it takes'
const NONE_TAKEN = 'method-matching > 2, 7 an empty Allow says that a resource takes no method'
// biome-ignore lint/suspicious/noTemplateCurlyInString: the title as its source has it
const ROW = 'method-properties > 1, 4.2 the row of ${method} is what its requests meet'
const FORMS = 'method-properties > 4 each form of request target has its methods, and no other'

const METHOD_ROWS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH']

export const STATEMENTS: readonly Statement[] = [
  ['1/1', 'a request is answered by what its method means, each of the nine', NINE],
  ['1/2', 'safe, idempotent and cacheable are three things, and hops go by them', ROW],

  ['2/1', 'a method is any token, and its letters count', TOKEN, MATCHED],
  ['2/2', 'Allow is a list of methods, and an empty one says that there are none', NOT_TAKEN, NONE_TAKEN],
  ['2/3', 'a patch document is instructions in the format that Content-Type names', FORMATS],

  ['3/1', 'once CONNECT was answered 2xx the connection carries bytes and no messages', TUNNEL],

  [
    '4/1',
    'origin-form, a path here, is for all but CONNECT',
    FORMS,
    'method-properties > 4 origin-form is a path on this server, and goes on as it came',
  ],
  ['4/2', 'authority-form, both host and port, is for CONNECT', FORMS, AUTHORITY],
  ['4/3', 'the asterisk is for OPTIONS', FORMS],

  ['4.1/1', 'a method is a token; that all are in capitals is a custom', TOKEN, NINE],
  ['4.1/2', 'methods are compared byte by byte, and other letters are another method', MATCHED],

  ...METHOD_ROWS.map((method, i): Statement => [`4.2/${i + 1}`, `what the table has of ${method}`, ROW]),
  [
    '4.2/10',
    'safe is read-only by intent; that it is logged or counted takes nothing from that',
    'method-properties > 4.2 safe requests, logged and counted as they are, leave the resource as it was',
  ],
  ['4.2/11', 'whatever is safe is idempotent', ROW],
  [
    '4.2/12',
    'idempotent: many have the effect of one, whatever each is answered',
    'method-properties > 4.2 an idempotent request may come many times: the effect is that of one',
  ],
  ['4.2/13', 'cacheable: the response may be kept and used again', CACHEABLE],
  [
    '4.2/14',
    'and its status has to allow that too, and no directive to forbid it',
    'cache/storable > 4.2 any final status with a lifetime is stored, except those about more than the target (RFC 9111 §3)',
    'cache/storable > 4.2 without a lifetime the status decides, or public (RFC 9111 §3, §4.2.2)',
    'cache/storable > 4.2 no-store and private forbid it, unless must-understand says otherwise (RFC 9111 §5.2.2.3, §5.2.2.5, §5.2.2.7)',
  ],
  [
    '4.2/15',
    'what breaks off unanswered is sent again only when its method is idempotent',
    // biome-ignore-start lint/suspicious/noTemplateCurlyInString: titles as their source has them
    'retry > 4.2 an origin dies behind each byte of an answer on ${on}, by ${way}',
    'retry > 4.2 idempotent and unanswered on a connection that was open: sent once more, by ${way}',
    'retry > 4.2 nothing is sent a third time, by ${way}',
    'retry-upstreams > 4.2 one of two upstreams dies before its answer is there, on ${on}',
    // biome-ignore-end lint/suspicious/noTemplateCurlyInString: titles as their source has them
  ],
  [
    '4.2/16',
    'POST and PATCH are sent again by those who know what they are for, not by a hop',
    // biome-ignore-start lint/suspicious/noTemplateCurlyInString: titles as their source has them
    'retry > 4.2 an origin dies behind each byte of an answer on ${on}, by ${way}',
    'retry > 4.2 a reset is no other end, by ${way}',
    // biome-ignore-end lint/suspicious/noTemplateCurlyInString: titles as their source has them
    'extension-methods > 4.2 it goes out once, as POST and PATCH do, wherever the origin dies (RFC 9110 §9.2.2)',
  ],

  ...METHOD_STATEMENTS,

  [
    '7/1',
    'a method that is not known at all: 501',
    'method-matching > 7 a method that none of the nine is: 501',
    MATCHED,
  ],
  [
    '7/2',
    'a method that this resource does not take: 405 with Allow, which may be empty',
    NOT_TAKEN,
    NONE_TAKEN,
  ],
  ['7/3', 'PUT with Content-Range: 400', CONTENT_RANGE],
  [
    '7/4',
    'a patch format that is not taken: 415, with Accept-Patch',
    'method-patch > 7 a patch format that is not taken is 415 with Accept-Patch, and changes nothing',
  ],
  [
    '7/5',
    'a good patch that cannot be applied: 422',
    'method-patch > 7 a good patch that cannot be applied here is 422, a bad one 400',
  ],
  [
    '7/6',
    'an If-Match of another version: 409 or 412',
    'method-patch > 7 an If-Match that does not hold is 412, and changes nothing',
  ],
  ['7/7', 'TRACE where it is off: 405', TRACE_OFF],
  ['7/8', 'a CONNECT that fails: 403, 502 or 504, and no tunnel', NO_TUNNEL],
  ['7/9', 'DELETE of what is gone: 404 or 410, idempotent all the same', DELETED_AGAIN],

  ['8/1', 'the ports of CONNECT are restricted, to 443 as a rule', PORTS],

  [
    '9/1',
    'the request line says HTTP/1.1',
    'method-matching > 9 the version in the request line is HTTP/1.1, and what is no HTTP/1 is refused',
  ],
  ['9/2', 'PATCH and its formats have specifications of their own, and media types', FORMATS],
]
