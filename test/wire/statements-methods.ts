/** The statements on each method (method specification, 4.3 to 4.11), part of the table of statements. */
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
  STORED_POST,
  type Statement,
} from './statement.js'

const POST_BACK = 'method-post > 4.5 200, 204 and 303 with its Location come back from an origin as they are'
const CREATED = 'method-put > 4.6 201 with Location where it creates, 204 where it overwrites'
const DELETED = 'method-delete > 4.7 what is deleted is not there any more: 204, and 404 to whoever asks'
const DELETE_BACK =
  'method-delete > 4.7 200 with a description, 202 and 204 come back from an origin as they are'
const ECHO = 'method-trace > 4.10 the answer is the request as it came, as message/http'
const ADDED_UP = 'method-patch > 4.11 the same patch again is applied again; with If-Match it is applied once'
const HEAD_OF_GET =
  'method-head > 4.4 the store answers HEAD with the head of GET, field by field, and no content'

export const METHOD_STATEMENTS: readonly Statement[] = [
  [
    '4.3/1',
    'content in a GET means nothing',
    'method-get > 4.3 content in a GET goes on as it came, and the store reads past it',
  ],
  [
    '4.3/2',
    'what is to be looked for stands in the query, or in a POST',
    'method-get > 4.3 the query goes on byte for byte, for what it asks is told there',
  ],
  [
    '4.3/3',
    'it is answered with the representation as it is now',
    'method-get > 4.3 the answer is the representation that there is now',
  ],
  [
    '4.3/4',
    'success is 200, and where there is no content 200 without any or 204',
    'method-get > 4.3 nothing in it is 200 with a length of zero, or 204 as the origin will',
  ],
  [
    '4.3/5',
    'it can be conditional',
    'method-get > 4.3 preconditions: 304 for what has not changed, 412 for what is not there',
  ],
  [
    '4.3/6',
    'it can ask for ranges',
    'method-get > 4.3 ranges: one, several, none that is there, and of another version',
  ],
  [
    '4.3/7',
    'no other method has to know Range',
    'method-get > 4.3 Range is for GET alone: the store looks at it nowhere else, and it passes to origins',
  ],

  [
    '4.4/1',
    'it is a GET whose answer never has content',
    HEAD_OF_GET,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the title as its source has it
    'head-statuses > 4.4 no content on any status from an origin ${kind}, by ${way}',
    'head-statuses > 4.4 no content on any status of the store, and the next request is answered',
    'head-errors > 4.4 each error that HEAD can meet is answered without content, and the next request is',
    'head-errors > 4.4 no error of the table puts content behind the head, whatever its status',
    'connection-refusals > no response to HEAD has content, errors included (RFC 9110 §9.3.2)',
  ],
  ['4.4/2', 'it has the fields of GET, the length, tag and type of the content among them', HEAD_OF_GET],
  [
    '4.4/3',
    'its Content-Length is that of the content that GET would have',
    'method-head > 4.4 Content-Length tells how long the content of GET is, for every length',
  ],
  [
    '4.4/4',
    'whoever receives it does not wait for content, whatever Content-Length says',
    'method-head > 4.4 Content-Length, ETag and Content-Type of an origin pass as they came, and no content is waited for',
  ],
  [
    '4.4/5',
    'it serves to see whether something is there, has changed, and what it is',
    'method-head > 4.4 it checks that something is there, and whether it has changed, without its content',
  ],
  [
    '4.4/6',
    'it may freshen the fields of a stored answer to GET',
    'cache/validation > 4.4 a response to HEAD freshens the fields of the stored GET (RFC 9111 §4.3.5)',
  ],
  [
    '4.4/7',
    'another length or tag makes the stored answer invalid',
    'cache/validation > 4.4 another Content-Length, ETag or Last-Modified makes the stored GET invalid (RFC 9111 §4.3.5)',
  ],

  [
    '4.5/1',
    'what becomes of the content is the business of the resource',
    'method-post > 4.5 content goes on as it came, whatever the resource makes of it',
    'method-post > 4.5 the store takes it at collections, and answers 405 elsewhere',
  ],
  [
    '4.5/2',
    'done again it has its effect again',
    'method-post > 4.5 the same POST again is done again: each creates another resource',
  ],
  ['4.5/3', 'an answer is cacheable only when it says how long it is fresh', STORED_POST],
  [
    '4.5/4',
    'and then for a later GET or HEAD of the same URI alone',
    STORED_POST,
    'cache/request > 4.5 only GET and HEAD without content are answered from the cache (RFC 9110 §9.2.3, §9.3.1)',
  ],
  ['4.5/5', 'most caches leave it at that', STORED_POST],
  [
    '4.5/6',
    'created: 201 with the Location of the new resource',
    'method-post > 4.5 what is created is 201 with a Location that leads to it',
  ],
  ['4.5/7', 'done and nothing created: 200 or 204', POST_BACK],
  ['4.5/8', 'the result is elsewhere: 303 with Location', POST_BACK],

  [
    '4.6/1',
    'the content is the whole new representation, never a part of one',
    'method-put > 4.6 the content replaces the representation as a whole',
  ],
  ['4.6/2', 'many equal ones are one', 'method-put > 4.6 many equal ones leave what one leaves'],
  ['4.6/3', 'with Content-Range it is refused with 400', CONTENT_RANGE],
  ['4.6/4', 'created: 201 with Location', CREATED],
  ['4.6/5', 'overwritten: 200 or 204', CREATED],
  [
    '4.6/6',
    'validators in the request may be ignored',
    'method-put > 4.6 validators that a client sends are no validators: the store makes its own',
  ],
  [
    '4.6/7',
    'an answer does not pretend that what is stored is what was sent when it is not',
    'method-put > 4.6 an ETag in the answer belongs to the very bytes that were sent',
    'method-put > 4.6 what an origin says of what it stored, or leaves out, is neither added to nor taken from',
  ],

  ['4.7/1', 'the URI leads to nothing any more', DELETED],
  [
    '4.7/2',
    'content in a DELETE means nothing',
    'method-delete > 4.7 content in a DELETE means nothing: it goes on as it came, and the store reads past it',
  ],
  [
    '4.7/3',
    'it is idempotent and not safe',
    'method-delete > 4.7 it is not safe: who may not write deletes nothing',
    DELETED_AGAIN,
  ],
  [
    '4.7/4',
    'that the second is answered otherwise changes nothing in that',
    DELETED_AGAIN,
    'method-delete > 4.7 a DELETE that may have been done is sent again all the same, as its method is idempotent',
  ],
  ['4.7/5', 'deleted, no more to say: 204', DELETED, DELETE_BACK],
  ['4.7/6', 'deleted, and described: 200', DELETE_BACK],
  ['4.7/7', 'to be deleted later: 202', DELETE_BACK],

  ['4.8/1', 'it names host and port, and opens a tunnel there', AUTHORITY],
  [
    '4.8/2',
    'it has no content',
    'method-connect > 4.8 a CONNECT has no content: one that has is 400, and opens nothing',
  ],
  ['4.8/3', 'after the 2xx nothing on the connection is read as HTTP any more', TUNNEL],
  [
    '4.8/4',
    'bytes go both ways as they are',
    TUNNEL,
    'connect-tunnel > passes every byte unchanged in both directions, including HTTP (RFC 9110 §9.3.6)',
  ],
  [
    '4.8/5',
    'the 2xx has no field that frames content',
    'method-connect > 4.8 the 2xx has neither Content-Length nor Transfer-Encoding',
  ],
  ['4.8/6', 'failed: 403, 502 or 504 like any error, and no tunnel', NO_TUNNEL],
  ['4.8/7', 'the ports that can be reached are restricted', PORTS],

  [
    '4.9/1',
    'the asterisk asks about the server, a path about a resource',
    'method-options > 4.9 `*` asks about the server as a whole, a path about that resource',
    'method-options > 4.9 an authority alone asks about that server: the last hop sends it `*`',
  ],
  [
    '4.9/2',
    'content in it means nothing',
    'method-options > 4.9 content in it means nothing: it goes on as it came, and the store reads past it',
  ],
  [
    '4.9/3',
    'the answer has Allow',
    'method-options > 4.9 what we answer has Allow and no content, whatever is asked about',
  ],
  [
    '4.9/4',
    'and content or none',
    'method-options > 4.9 content in an answer of an origin is optional, and passes',
  ],
  ['4.9/5', 'an answer is not kept for later', CACHEABLE],
  [
    '4.9/6',
    'a CORS preflight is an OPTIONS with fields that are none of HTTP’s business',
    'method-options > 4.9 a CORS preflight is between browser and origin: it passes, and we answer none',
  ],

  ['4.10/1', 'it shows what arrives at the end of a chain of hops', ECHO],
  ['4.10/2', 'it has no content', 'method-trace > 4.10 a TRACE with content is 400 and goes nowhere'],
  [
    '4.10/3',
    'nothing sensitive belongs into it',
    'method-trace > 4.10 what is sensitive in a request is not echoed',
  ],
  ['4.10/4', 'the content of the answer is the whole request, as message/http', ECHO],
  [
    '4.10/5',
    'Max-Forwards picks the hop that answers',
    'method-trace > 4.10 Max-Forwards says at which hop of a chain it is answered',
  ],
  ['4.10/6', 'it may be off, and is 405 then', TRACE_OFF],
  [
    '4.10/7',
    'but nobody has to switch it off',
    'method-trace > 4.10 whoever runs it may switch it on: then it is answered, and stands in Allow',
  ],

  ['4.11/1', 'it changes a part of a resource', 'method-patch > 4.11 a part is changed and the rest stays'],
  ['4.11/2', 'instructions that are followed twice may add up', ADDED_UP],
  ['4.11/3', 'If-Match can see to it that they are followed once', ADDED_UP],
  ['4.11/4', 'Content-Type names the format: JSON Patch, Merge Patch', FORMATS],
  ['4.11/5', 'a patch document is no part of a representation', FORMATS],
  [
    '4.11/6',
    'all of it is applied, or nothing',
    'method-patch > 4.11 a patch is applied as a whole or not at all',
    'method-patch > 4.11 who reads while patches are applied sees all of each or nothing',
  ],
  [
    '4.11/7',
    'Accept-Patch may list the formats',
    'method-patch > 4.11 Accept-Patch lists the formats that are taken, and that of an origin passes',
  ],
  [
    '4.11/8',
    'an answer has content or none',
    'method-patch > 4.11 an origin gets the patch document as it came, and its answer comes back, content or none',
  ],
]
