! Plans a step from Fortran, without MPI, and prints the micro-batches that examples/c_planner.c prints.
!
!   gfortran fortran_planner.f90 -levenkeel -o fortran_planner && ./fortran_planner
program fortran_planner
  use, intrinsic :: iso_c_binding
  implicit none
  type, bind(c) :: evenkeel_lengths
    integer(c_int64_t) :: count
    type(c_ptr) :: prompts, responses
    type(c_ptr) :: groups = c_null_ptr, loss_tokens = c_null_ptr, tokens = c_null_ptr, token_offsets = c_null_ptr
  end type
  type, bind(c) :: evenkeel_array
    type(c_ptr) :: name
    integer(c_int32_t) :: dtype
    integer(c_int64_t) :: num_dimensions
    type(c_ptr) :: shape, data
  end type
  interface
    integer(c_int32_t) function evenkeel_config_parse(yaml, names, values, count, config) bind(c)
      import
      character(kind=c_char), intent(in) :: yaml(*)
      type(c_ptr), value :: names, values
      integer(c_int64_t), value :: count
      type(c_ptr), intent(out) :: config
    end function
    integer(c_int32_t) function evenkeel_plan_create(lengths, config, profile, step, ranks, plan) bind(c)
      import
      type(evenkeel_lengths), intent(in) :: lengths
      type(c_ptr), value :: config, profile
      integer(c_int64_t), value :: step
      integer(c_int32_t), value :: ranks
      type(c_ptr), intent(out) :: plan
    end function
    type(c_ptr) function evenkeel_plan_arrays(plan) bind(c)
      import
      type(c_ptr), value :: plan
    end function
    integer(c_int32_t) function evenkeel_arrays_at(arrays, index, array) bind(c)
      import
      type(c_ptr), value :: arrays
      integer(c_int64_t), value :: index
      type(evenkeel_array), intent(out) :: array
    end function
  end interface

  integer(c_int64_t), target :: lengths(6) = [5, 3, 4, 2, 7, 1], prompts(6) = 0
  integer(c_int64_t), pointer :: samples(:), bounds(:), ranks(:), tokens(:)
  integer(c_int64_t) :: rank, m
  type(c_ptr) :: config, plan

  call check(evenkeel_config_parse("{mesh: {dp: 2, cp: 2}, micro_batch: {max_tokens: 16}}" // c_null_char, &
                                   c_null_ptr, c_null_ptr, 0_c_int64_t, config))
  call check(evenkeel_plan_create(evenkeel_lengths(6, c_loc(prompts), c_loc(lengths)), config, c_null_ptr, 0_c_int64_t, &
                                  -1_c_int32_t, plan))
  samples => numbers("samples")
  bounds => numbers("sample_offsets")
  ranks => numbers("rank_offsets")
  tokens => numbers("tokens")
  do rank = 1, size(ranks) - 1
    do m = ranks(rank) + 1, ranks(rank + 1)
      print "(a, i0, a, i0, a, *(1x, i0))", "DP rank ", rank - 1, ", ", tokens(m), " tokens, samples", &
        samples(bounds(m) + 1 : bounds(m + 1))
    end do
  end do

contains

  subroutine check(status)
    integer(c_int32_t), intent(in) :: status
    if (status /= 0) error stop "a call of Evenkeel failed"
  end subroutine

  ! The int64 array of the plan that has this name.
  function numbers(name) result(values)
    character(*), intent(in) :: name
    integer(c_int64_t), pointer :: values(:), shape(:)
    character(kind=c_char), pointer :: text(:)
    type(evenkeel_array) :: array
    integer(c_int64_t) :: i
    i = 0
    do
      call check(evenkeel_arrays_at(evenkeel_plan_arrays(plan), i, array))
      call c_f_pointer(array%name, text, [len(name) + 1])
      if (all(text == transfer(name // c_null_char, text))) exit
      i = i + 1
    end do
    call c_f_pointer(array%shape, shape, [1])
    call c_f_pointer(array%data, values, shape)
  end function
end program
