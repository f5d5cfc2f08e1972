import t from 'tap'
import type { JsonValue } from '../../../src/origin/store/json-value.js'
import { applyMergePatch } from '../../../src/origin/store/merge-patch.js'

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

t.test('__proto__ is a member like any other', async t => {
  t.equal(merged('{}', '{"__proto__":{"x":1}}'), '{"__proto__":{"x":1}}')
  t.equal(merged('{"__proto__":{"x":1}}', '{"__proto__":{"x":null}}'), '{"__proto__":{}}')
  t.equal(merged('{}', '{"constructor":{"prototype":{"x":1}}}'), '{"constructor":{"prototype":{"x":1}}}')
  t.equal(({} as Record<string, unknown>)['x'], undefined)
})
