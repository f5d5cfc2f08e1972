/**
 * What `tap run` shows: each process of tests as it ends, what has failed with its reasons, and the totals. The reporters
 * of tap draw the screen anew for every assertion, which takes longer than most of the tests.
 */
import { Transform, type TransformCallback } from 'node:stream'

/** `ok 3 - name # time=5ms {`, at any depth; the brace opens the tests within it when they are told at once. */
const RESULT = /^( *)(not )?ok \d+(?: - (.*?))?(?: # time=[\d.]+m?s)?(?: \{)?$/
/** Opens the tests within a test whose result comes behind them. */
const SUBTEST = /^( *)# Subtest: (.*)$/
const TOTALS = /^# (?:\{ total: |time=)/
const BAIL_OUT = /^ *Bail out!/
const INDENT = 4

/** Takes TAP and gives text for people. */
export default class Reporter extends Transform {
  #rest = ''
  /** Of the tests around the line that is read, by depth. */
  readonly #names: string[] = []
  #failed = false
  #inReasons = false

  constructor() {
    super({ decodeStrings: false, encoding: 'utf8' })
  }

  override _transform(chunk: string | Buffer, _encoding: BufferEncoding, callback: TransformCallback): void {
    const lines = `${this.#rest}${chunk}`.split('\n')
    this.#rest = lines.pop() ?? ''
    callback(null, lines.map(line => this.#shown(line)).join(''))
  }

  override _flush(callback: TransformCallback): void {
    callback(null, this.#shown(this.#rest))
  }

  /** @returns what is shown of a line, with its end */
  #shown(line: string): string {
    if (this.#inReasons || (this.#failed && /^ *---$/.test(line))) {
      this.#inReasons = !/^ *\.\.\.$/.test(line)
      return `${line}\n`
    }
    const subtest = SUBTEST.exec(line)
    if (subtest !== null) this.#enter(subtest)
    const result = RESULT.exec(line)
    if (result !== null) return this.#result(result)
    return TOTALS.test(line) || BAIL_OUT.test(line) ? `${line}\n` : ''
  }

  #enter([, before = '', name = '']: readonly string[]): number {
    const depth = before.length / INDENT
    this.#names.splice(depth, Infinity, name)
    return depth
  }

  #result([, before = '', not, name = '']: readonly (string | undefined)[]): string {
    const depth = this.#enter(['', before, name])
    this.#failed = not !== undefined
    if (this.#failed) return `not ok: ${this.#names.join(' > ')}\n`
    // The first is the file that tap was given: all.ts, in which every process is a test.
    return depth === 1 ? `ok: ${name}\n` : ''
  }
}
