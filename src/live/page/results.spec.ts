import { describe, expect, it } from 'vitest';
import { imageOf } from './results.js';

describe('an image of a result', () => {
  it.each([
    ['a block of a tool', { type: 'image', data: 'aGk=', mimeType: 'image/png' }, 'data:image/png;base64,aGk='],
    ['a resource', { blob: 'aGk=', mimeType: 'image/svg+xml' }, 'data:image/svg+xml;base64,aGk='],
    ['an SVG that is a text', { text: '<svg/>', mimeType: 'image/svg+xml' }, 'data:image/svg+xml,%3Csvg%2F%3E'],
  ])('%s becomes a data URL', (_, block, url) => {
    expect(imageOf(block)).toBe(url);
  });

  it.each([
    ['of another type', { data: 'aGk=', mimeType: 'text/html' }],
    ['of a type with parameters', { data: 'aGk=', mimeType: 'image/png;base64,x' }],
    ['that was cut', { data: 'aGk…', mimeType: 'image/png' }],
    ['that was parsed', { text: { svg: 1 }, mimeType: 'image/svg+xml' }],
    ['without a type', { data: 'aGk=' }],
  ])('a block %s is no image', (_, block) => {
    expect(imageOf(block)).toBeUndefined();
  });
});
