import type { Type } from '@nestjs/common';
import { requirePackage } from '../../common/optional-package.cjs';
import { handlerMessages } from '../handlers.messages.js';

/** One rule that a decorator of class-validator left behind. */
export interface ValidationRule {
  /** `customValidation`, `nestedValidation`, `conditionalValidation`, … */
  readonly type: string;
  /** The decorator: `isString`, `minLength`, … */
  readonly name?: string;
  readonly propertyName: string;
  readonly constraints?: readonly unknown[];
  /** Holds for each element of an array. */
  readonly each: boolean;
}

export interface ValidationFailure {
  readonly property: string;
  readonly constraints?: Readonly<Record<string, string>>;
  readonly children?: readonly ValidationFailure[];
}

/** What we need of class-validator. */
interface ClassValidator {
  validate(value: object, options: object): Promise<ValidationFailure[]>;
  getMetadataStorage(): {
    getTargetValidationMetadatas(target: Type, schema: string, always: boolean, strict: boolean): ValidationRule[];
  };
}

/** What we need of class-transformer. */
interface ClassTransformer {
  plainToInstance(type: Type, value: unknown): object;
  instanceToPlain(value: object): Record<string, unknown>;
}

/** Where class-transformer keeps what `@Type()` said. */
interface TypeStorage {
  findTypeMetadata(target: Type, property: string): { typeFunction?(): Type } | undefined;
}

export interface ClassPackages {
  readonly validator: ClassValidator;
  readonly transformer: ClassTransformer;
  readonly types: TypeStorage;
}

/**
 * The optional peers that give classes their meaning.
 *
 * @param load finds a package
 * @throws Error that says what to install
 */
export function loadClassPackages(load: (name: string) => unknown = requirePackage): ClassPackages {
  try {
    return {
      validator: load('class-validator') as ClassValidator,
      transformer: load('class-transformer') as ClassTransformer,
      // Its index does not export it; Nest's own plugins look here, too.
      types: (load('class-transformer/cjs/storage.js') as { defaultMetadataStorage: TypeStorage })
        .defaultMetadataStorage,
    };
  } catch (error) {
    throw new Error(handlerMessages.classPackagesMissing(), { cause: error });
  }
}
