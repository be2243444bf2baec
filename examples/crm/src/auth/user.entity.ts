import { Column, Entity, PrimaryColumn } from 'typeorm';

export type Role = 'seller' | 'manager' | 'operator';

@Entity()
export class User {
  @PrimaryColumn('text') id!: string;
  @Column('text') tenant!: string;
  @Column('text') role!: Role;
  /** Is hashed. */
  @Column('text', { select: false }) password!: string;
}
