import t from 'tap'
import type { JsonValue } from '../../../src/origin/store/json-value.js'
import {
  applyMergePatch,
  applyPatch,
  isShort,
  MAX_PATCH_TARGET_BYTES,
  type PatchKind,
} from '../../../src/origin/store/patch-document.js'

function job(kind: PatchKind, target: string, document: string) {
  return { kind, target: Buffer.from(target), document: Buffer.from(document) }
}

t.test('a short patch is applied at once, unless a copy may make the document long', t => {
  const whole = 32 * 1024
  for (const [kind, target, document, short] of [
    ['merge-patch', 'x'.repeat(whole - 2), '{}', true],
    ['merge-patch', 'x'.repeat(whole - 1), '{}', false],
    ['merge-patch', '{}', 'x'.repeat(whole - 2), true],
    ['merge-patch', '{}', 'x'.repeat(whole - 1), false],
    ['merge-patch', '{}', '{"a":"copy"}', true],
    ['json-patch', '{}', '[{"op":"add","path":"/a","value":1}]', true],
    ['json-patch', '{}', '[{"op":"copy","path":"/a","from":""}]', false],
    ['json-patch', '{}', '[{"op":"c\\u006fpy","path":"/a","from":""}]', false],
    ['json-patch', 'x'.repeat(whole - 1), '[]', false],
  ] as const) {
    t.equal(isShort(job(kind, target, document)), short, `${kind} ${target.length} ${document.slice(0, 50)}`)
  }
  t.equal(isShort({ ...job('json-patch', '', ''), document: new Uint8Array(Buffer.from('"copy"')) }), false)
  t.end()
})

t.test('the patch document is checked before its target, and the result before it is returned', t => {
  t.equal(applyPatch(job('merge-patch', '{"a":1}', '{"b":2}')).toString(), '{"a":1,"b":2}')
  t.equal(applyPatch(job('json-patch', '[1]', '[{"op":"remove","path":"/0"}]')).toString(), '[]')
  for (const [kind, target, document, status] of [
    ['merge-patch', 'no JSON', 'no JSON', 400],
    ['merge-patch', 'no JSON', '{}', 422],
    ['json-patch', 'no JSON', '{}', 400],
    ['json-patch', '{}', '[{"op":"remove","path":"/a"}]', 422],
    ['merge-patch', '{}', `"${'x'.repeat(MAX_PATCH_TARGET_BYTES - 1)}"`, 422],
  ] as const) {
    t.throws(
      () => applyPatch(job(kind, target, document)),
      { name: 'ProxyError', status },
      document.slice(0, 50),
    )
  }
  t.end()
})

function merged(target: string, patch: string): string {
  return JSON.stringify(applyMergePatch(JSON.parse(target) as JsonValue, JSON.parse(patch) as JsonValue))
}

t.test('the examples of RFC 7396 Appendix A', async t => {
  for (const [target, patch, result] of [
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['["a","b"]', '["c","d"]', '["c","d"]'],
    ['{"a":"b"}', '["c"]', '["c"]'],
    ['{"a":"foo"}', 'null', 'null'],
    ['{"a":"foo"}', '"bar"', '"bar"'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
  ] as const) {
    t.equal(merged(target, patch), result, patch)
  }
})

t.test('__proto__ is an ordinary member', async t => {
  t.equal(merged('{}', '{"__proto__":{"x":1}}'), '{"__proto__":{"x":1}}')
  t.equal(merged('{"__proto__":{"x":1}}', '{"__proto__":{"x":null}}'), '{"__proto__":{}}')
  t.equal(merged('{}', '{"constructor":{"prototype":{"x":1}}}'), '{"constructor":{"prototype":{"x":1}}}')
  t.equal(({} as Record<string, unknown>)['x'], undefined)
})
